"""Files named from the current folder: children run in folders of their own and must find them all the same."""

from pathlib import Path

import pytest
import tiny_corpus


@pytest.mark.slow
def test_problem_and_solution_by_relative_path(kbench):
    Path("twice.py").write_text(tiny_corpus.problem())
    Path("mine").mkdir()
    Path("mine/sum.py").write_text(tiny_corpus.solution("return x + x"))
    done = kbench("verify", "twice.py", "mine/sum.py", "eager", "--device", "cpu", "--no-save", "-q")
    assert done.code == 0, done.out
    assert done.out.splitlines() == ["passed  sum  default  general", "passed  eager  default  general"]
