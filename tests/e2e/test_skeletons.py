"""What `kbench new solution` writes: right once one function is filled, as far as this machine can tell."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import tiny_corpus

from kbench.catalog import registry
from kbench.cli.app import main
from kbench.cli.new import solution_text
from kbench.storage.settings import Settings


@pytest.fixture(autouse=True)
def problem(own_folder: Path) -> registry.Entry:
    Path("double.py").write_text(tiny_corpus.problem())
    return registry.find_problem("double.py", Settings())


def judged(text: str) -> int:
    Path("mine.py").write_text(text)
    with pytest.raises(SystemExit) as ended:
        main(["verify", "double.py", "mine.py", "--device", "cpu", "--no-save", "--set", "n=256", "--level", "task"])
    return int(ended.value.code)


def test_the_cpp_skeleton_passes_once_it_is_filled_and_writes_nothing_before(problem, capsys):
    skeleton = solution_text(problem, "cpp")
    assert judged(skeleton) == 1
    assert "unwritten_output: " in capsys.readouterr().out
    filled = skeleton.replace("  return 0;\n", "  for (int64_t i = 0; i < count; ++i) y[i] = 2 * x[i];\n  return 0;\n")
    assert judged(filled) == 0


def test_the_torch_skeleton_passes_once_it_is_filled_and_not_before(problem):
    skeleton = solution_text(problem, "torch")
    assert judged(skeleton) == 1
    assert judged(skeleton.replace('raise NotImplementedError("fill in the solution")', "return x + x")) == 0


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on the PATH")
def test_the_cuda_skeleton_compiles(problem, tmp_path):
    """Without a torch header: this is what it builds in seconds for."""
    found = re.search(r'SOURCE = r"""(.*?)"""', solution_text(problem, "cuda"), re.S)
    source = tmp_path / "kernel.cu"
    source.write_text(found[1])
    command = ["nvcc", "-O3", "-arch=sm_90", "-c", str(source), "-o", str(tmp_path / "kernel.o")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
