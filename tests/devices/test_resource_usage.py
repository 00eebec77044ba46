"""What `cuobjdump -res-usage` prints, by its description in CUDA Binary Utilities; the tool itself is not here."""

import stat
import sys

from kbench.core.trace import KernelResources
from kbench.devices.profiler import parse_resources, resources

TEXT = """
Fatbin elf code:
================
arch = sm_80
code version = [1,7]

Resource usage:
 Common:
  GLOBAL:0
 Function _Z6scaledPf:
  REG:40 STACK:0 SHARED:0 LOCAL:0 CONSTANT[0]:376 TEXTURE:0 SURFACE:0 SAMPLER:0

Fatbin elf code:
================
arch = sm_90a

Resource usage:
 Function _Z6scaledPf:
  REG:32 STACK:984 SHARED:4096 LOCAL:0 CONSTANT[0]:552 TEXTURE:0 SURFACE:0 SAMPLER:0
 Function triton_kernel:
  REG:64 STACK:0 SHARED:0 LOCAL:0 CONSTANT[0]:376
"""


def test_kernels_with_registers_and_stack():
    assert parse_resources(TEXT) == {
        "_Z6scaledPf": KernelResources(name="_Z6scaledPf", registers=32, stack_bytes=984),
        "triton_kernel": KernelResources(name="triton_kernel", registers=64, stack_bytes=0),
    }
    assert parse_resources("cuobjdump info    : File 'x.so' does not contain device code") == {}


def test_the_tool_is_asked_about_each_file(tmp_path):
    tool = tmp_path / "cuobjdump"
    tool.write_text(f"#!{sys.executable}\nimport sys\nprint(open(sys.argv[2]).read())\n")
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    (tmp_path / "one.so").write_text(TEXT)
    (tmp_path / "two.cubin").write_text("Function other: REG:1 STACK:2\n")
    found = [*resources(str(tool), [tmp_path / "two.cubin", tmp_path / "one.so"])]
    assert [each.name for each in found] == ["_Z6scaledPf", "triton_kernel", "other"]
    assert [*resources(str(tmp_path / "missing"), [tmp_path / "one.so"])] == []
