"""Files named from the current folder: children run in folders of their own and must find them all the same."""

from pathlib import Path

import pytest

PROBLEM = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return x * 2

def get_inputs():
    return [torch.rand(4, 4)]

def get_init_inputs():
    return []
"""
SOLUTION = "import torch\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x + x\n"


@pytest.mark.slow
def test_problem_and_solution_by_relative_path(kbench):
    Path("twice.py").write_text(PROBLEM)
    Path("mine").mkdir()
    Path("mine/sum.py").write_text(SOLUTION)
    done = kbench("verify", "twice.py", "mine/sum.py", "eager", "--device", "cpu", "--no-save", "-q")
    assert done.code == 0, done.out
    assert done.out.splitlines() == ["passed  sum  default  general", "passed  eager  default  general"]
