"""Every device source compiles for the oldest GPU that runs it; needs nvcc, no GPU."""

import re
import subprocess
from pathlib import Path

import pytest

from kbench.kernels import native

SOURCES = sorted(path.name for path in native.SOURCE_FOLDER.glob("*.cu"))


OLDEST = ("-arch=sm_80", "-std=c++17", "-Xcicc=-O0", "-Xptxas=-O0")
"""Without optimisation, which takes half as long."""
HOPPER = ("-arch=sm_90a", *native.CUDA_FLAGS)
"""Flags as shipped: only then `ptxas` says whether it has to wait between the products of a warp group."""
TARGETS = {source: HOPPER if source.endswith("_wgmma.cu") else OLDEST for source in SOURCES}


def test_there_are_sources() -> None:
    assert SOURCES


def test_device_code_includes_no_torch_header() -> None:
    """Such a header makes a build of seconds one of half a minute; tensors come as pointers instead."""
    files = [path for suffix in ("cu", "cuh", "cpp", "h") for path in native.SOURCE_FOLDER.rglob(f"*.{suffix}")]
    assert len(files) > len(SOURCES)
    for path in files:
        included = re.findall(r'#\s*include\s*[<"]([^>"]+)', path.read_text(encoding="utf-8"))
        assert not [name for name in included if name.startswith(("torch/", "ATen/", "c10/", "pybind11/"))], path


@pytest.mark.slow(seconds=15)
@pytest.mark.skipif(not native.has_cuda_compiler(), reason="nvcc is not on the PATH")
@pytest.mark.parametrize("source", sorted(SOURCES, key=lambda source: TARGETS[source] is OLDEST))
def test_compiles_without_warnings(source: str, tmp_path: Path) -> None:
    """Compile to code for the device alone: nvcc also reads the code for the host, and reports what is wrong there."""
    files = [str(native.SOURCE_FOLDER / source), "-o", str(tmp_path / "code.cubin")]
    command = ["nvcc", *TARGETS[source], "-I", str(native.INCLUDE_FOLDER), "-cubin", *files]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert finished.returncode == 0, finished.stderr
    assert not re.search("warning|Performance Loss", finished.stderr), finished.stderr
