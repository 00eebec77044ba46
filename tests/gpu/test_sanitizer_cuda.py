"""compute-sanitizer below a real worker on a real GPU: what it must find, and what it must leave alone."""

import pytest
from require import WITH_CUDA
from verdicts import entries, verdicts

from kbench.core.model import Failed, Passed, Status
from kbench.host import sanitizer
from kbench.sandbox import rung_probe, rungs
from kbench.selftest.fixtures import CORPUS
from kbench.storage.settings import cache_dir

pytestmark = [
    *WITH_CUDA,
    pytest.mark.skipif(sanitizer.toolkit.find(sanitizer.NAME) is None, reason="needs compute-sanitizer"),
]

SOLUTION = '''
import ctypes
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
{kernel}
extern "C" int launch(const float* x, float* y, float* spare, long n, void* stream) {{
  mine<<<unsigned((n + 255) / 256), 256, 0, (cudaStream_t)stream>>>(x, y, spare, n);
  return cudaGetLastError();
}}
"""
LIBRARY = ctypes.CDLL(load_inline("kbench_test_{name}", cpp_sources=[], cuda_sources=[SOURCE],
                                  no_implicit_headers=True, is_python_module=False))
LIBRARY.launch.argtypes = (*[ctypes.c_void_p] * 3, ctypes.c_long, ctypes.c_void_p)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y, spare = torch.empty_like(x), torch.empty_like(x)
        stream = torch.cuda.current_stream().cuda_stream
        LIBRARY.launch(x.data_ptr(), y.data_ptr(), spare.data_ptr(), x.numel(), stream)
        return y
'''
HEAD = "__global__ void mine(const float* x, float* y, float* spare, long n) {\n"
INDEX = "  const long i = blockIdx.x * 256l + threadIdx.x;\n"
RIGHT = "  if (i < n) y[i] = x[i] > 0 ? x[i] : 0;\n"
KERNELS = {
    "clean": HEAD + INDEX + RIGHT + "}",
    "beside": HEAD + INDEX + RIGHT + "  if (i == 0) y[n] = 0;  // one too far\n}",
}


@pytest.fixture
def outcome(tmp_path, monkeypatch):
    """Judge one of the kernels on the shipped ReLU problem."""
    monkeypatch.setenv("KBENCH_CACHE", str(tmp_path / "cache"))

    def judge(name: str, **options):
        path = tmp_path / f"{name}.py"
        path.write_text(SOLUTION.format(kernel=KERNELS[name], name=name))
        return judged(path, **options)

    return judge


def judged(path, **options):
    found = entries(CORPUS / "problems" / "relu.py", path)
    (one,) = verdicts(*found, device="cuda", wait_for_device=True, **options).values()
    return one.outcome


@pytest.mark.parametrize("trusted", [True, False], ids=["no sandbox", "highest rung"])
def test_memcheck_finds_nothing_in_a_clean_kernel(outcome, trusted):
    """The one that shows whether the tool attaches within the sandbox: a note of another kind says why not."""
    found = outcome("clean", sanitize=True, trusted=trusted)
    assert isinstance(found, Passed), found
    notes = [finding.message for finding in found.findings if finding.code == "memcheck"]
    assert notes == ["memcheck found nothing in case default"]


def test_a_write_just_beyond_the_output_is_found_with_its_line(outcome):
    found = outcome("beside", sanitize=True)
    assert isinstance(found, Failed)
    assert found.status is Status.ILLEGAL_ACCESS
    assert "Invalid __global__ write of size 4" in found.reason
    assert "mine(" in found.reason
    assert "one too far" in found.reason, "the source line is quoted"


def test_after_an_illegal_access_the_line_is_named_unasked(tmp_path, monkeypatch):
    monkeypatch.setenv("KBENCH_CACHE", str(tmp_path / "cache"))
    found = judged(CORPUS / "cheats" / "writes_far_out_of_bounds.py")
    assert isinstance(found, Failed)
    assert found.status is Status.ILLEGAL_ACCESS
    assert "memcheck: Invalid __global__ write" in found.reason
    assert "1l << 38" in found.reason


@pytest.mark.parametrize("rung", list(rungs.Rung))
def test_the_tool_attaches_within_every_rung_that_this_machine_reaches(tmp_path, monkeypatch, rung):
    if rung > rung_probe.reached("cuda", cache_dir()):
        pytest.skip("this machine does not reach that rung")
    monkeypatch.setenv("KBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("kbench.engine.run.sandbox_rung", lambda *_: int(rung))
    path = tmp_path / "beside.py"
    path.write_text(SOLUTION.format(kernel=KERNELS["beside"], name="beside"))
    found = judged(path, sanitize=True)
    assert isinstance(found, Failed), [finding.message for finding in found.findings]
    assert found.status is Status.ILLEGAL_ACCESS
