"""Every device source compiles for every architecture it is meant for; needs nvcc, no GPU."""

import subprocess
from pathlib import Path

import pytest

from kbench.kernels import native

SOURCES = sorted(path.name for path in native.SOURCE_FOLDER.glob("*.cu"))
TARGETS = ("80", "90a")


def test_there_are_sources() -> None:
    assert SOURCES


@pytest.mark.slow
@pytest.mark.skipif(not native.has_cuda_compiler(), reason="nvcc is not on the PATH")
@pytest.mark.parametrize("source", SOURCES)
def test_compiles_without_warnings(source: str, tmp_path: Path) -> None:
    """One nvcc call per source for all targets: code below sm_90 may trap, but it must compile."""
    targets = [f"-gencode=arch=compute_{target},code=sm_{target}" for target in TARGETS]
    finished = subprocess.run(
        [
            "nvcc",
            *native.CUDA_FLAGS,
            *targets,
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
