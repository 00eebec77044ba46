"""`kbench import`: the files that it writes, and what it refuses."""

from pathlib import Path

import pytest

FILE = """
import torch

class ReluBenchmark(Benchmark):
    def setup(self):
        self.x = torch.randn(256, 64, device=self.device)

    def benchmark_base(self):
        self.out = self.kernel.relu(self.x)

    def verify_base(self):
        return torch.relu(self.x)
"""


@pytest.fixture
def file() -> Path:
    path = Path("benchmark.py")
    path.write_text(FILE)
    return path


def test_a_problem_is_written_and_listed(kbench, file):
    done = kbench("import", file, "--in", "made")
    assert (done.code, done.out.split()[-2:]) == (0, ["made/relu.py", "1"])
    assert "hint: look at the file, then `kbench run made/relu.py eager`" in done.err
    assert "base" in kbench("list", "made/relu.py", "--cases").out
    (found,) = kbench("import", file, "--in", "again", "--json").document["results"]
    assert found == {"problem": "again/relu.py", "cases": 1, "not taken over": []}


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("absent.py",), 2, "absent.py cannot be read"),
        (("absent.json",), 2, "absent.json cannot be read"),
        (("benchmark.txt",), 2, "has no format that kbench reads"),
        (("w.jsonl",), 2, "workloads need their definition"),
        (("benchmark.py", "--in", "benchmark.py"), 3, "cannot be written"),
        ((), 2, "Missing argument 'FILE'"),
    ],
)
def test_errors(refused, file, words, code, said):
    found = refused("import", *words)
    assert (found[0], said in found[1]) == (code, True), found


def test_a_file_that_exists_stays(kbench, file):
    assert kbench("import", file).code == 0
    Path("relu.py").write_text("mine")
    done = kbench("import", file)
    assert (done.code, "relu.py exists already" in done.err) == (2, True)
    assert Path("relu.py").read_text() == "mine"
