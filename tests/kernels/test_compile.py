"""Every device source compiles for every architecture it is meant for; needs nvcc, no GPU."""

import re
import subprocess
from pathlib import Path

import pytest

from kbench.kernels import native

SOURCES = sorted(path.name for path in native.SOURCE_FOLDER.glob("*.cu"))


def targets(source: str) -> tuple[str, str]:
    """What a source is built for: as `native.load_cuda` does it on an older GPU, and on a Hopper."""
    return "80", "90a" if source.endswith("_wgmma.cu") else "90"


def test_there_are_sources() -> None:
    assert SOURCES


def test_device_code_includes_no_torch_header() -> None:
    """Such a header makes a build of seconds one of half a minute; tensors come as pointers instead."""
    files = [path for suffix in ("cu", "cuh", "cpp", "h") for path in native.SOURCE_FOLDER.rglob(f"*.{suffix}")]
    assert len(files) > len(SOURCES)
    for path in files:
        included = re.findall(r'#\s*include\s*[<"]([^>"]+)', path.read_text(encoding="utf-8"))
        assert not [name for name in included if name.startswith(("torch/", "ATen/", "c10/", "pybind11/"))], path


@pytest.mark.slow
@pytest.mark.skipif(not native.has_cuda_compiler(), reason="nvcc is not on the PATH")
@pytest.mark.parametrize("source", SOURCES)
def test_compiles_without_warnings(source: str, tmp_path: Path) -> None:
    """One nvcc call per source for both targets: code below sm_90 may trap, but it must compile."""
    flags = [f"-gencode=arch=compute_{target},code=sm_{target}" for target in targets(source)]
    finished = subprocess.run(
        [
            "nvcc",
            *native.CUDA_FLAGS,
            *flags,
            "-I",
            str(native.INCLUDE_FOLDER),
            "-c",
            str(native.SOURCE_FOLDER / source),
            "-o",
            str(tmp_path / "object.o"),
        ],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    assert "warning" not in finished.stderr, finished.stderr
