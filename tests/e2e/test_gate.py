"""`kbench gate --against` as CI would call it: a git repository, two commits, real processes, on a CPU."""

from pathlib import Path

import pytest
import tiny_corpus
from repositories import git, new_repository

SETTINGS = """[tool.kbench]
level = "task"

[tool.kbench.run]
pairs = 4
processes = 2
max_processes = 2
precision = 0.9
"""


def commit(folder: Path, body: str) -> None:
    (folder / "twice" / "timed.py").write_text(tiny_corpus.solution(body))
    git(folder, "add", ".")
    git(folder, "commit", "-m", body)


@pytest.mark.slow
def test_a_commit_that_is_wrong_fails_beside_the_one_before_it_that_is_timed(own_folder, monkeypatch, kbench) -> None:
    """Whether a slower one is found is a matter of tests with times that are known (`tests/gate`)."""
    folder = new_repository(own_folder / "work", "twice")
    monkeypatch.chdir(folder)
    (folder / "pyproject.toml").write_text(SETTINGS)
    (folder / "twice.py").write_text(tiny_corpus.problem())
    commit(folder, "return x + x")
    commit(folder, "return x + x + 1")
    done = kbench("gate", "twice.py", "timed", "--against", "HEAD~1", "--device", "cpu", "--json")
    (case,) = done.document["results"]
    assert (done.code, case["case"], case["verdict"]) == (1, "default", "new_fail"), done.out + done.err
