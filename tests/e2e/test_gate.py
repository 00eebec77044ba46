"""`kbench gate --against` as CI would call it: a git repository, two commits, real processes and real times, on a CPU.

The kernel watches the clock until a known time has gone by, so its time is known on a busy machine too. What a busy
machine takes away is precision: beside other tests a small change may stay unclear, and an unclear case is measured
again in up to 20 processes. So the suite plants a change that no load hides in the one case that it gates. How small a
change is found beside an unchanged case, and how often the same commit is called slower, is measured on a quiet
machine:

    KBENCH_TIMING_TESTS=1 pytest -n 0 tests/e2e/test_gate.py
"""

import json
import os
from pathlib import Path

import commands
import pytest
import tiny_corpus
from repositories import git, new_repository

pytestmark = pytest.mark.slow(seconds=40)

TIMEOUT_S = 900
HEAD = """import time

spin_ns = 1_000_000
CASES = {"short": {"spin_ns": 500_000}, "long": {}}


def doubled(x, spin_ns):
    until = time.monotonic_ns() + spin_ns
    while time.monotonic_ns() < until:
        pass
    return 2 * x"""
RESULT = "doubled(x, self.spin_ns)"
PROBLEM = tiny_corpus.problem(
    RESULT, given="torch.randn(64)", constants=HEAD, layers="self.spin_ns = spin_ns", takes="spin_ns"
)
QUICKER = PROBLEM.replace("500_000", "200_000").replace("1_000_000", "250_000")
"""Where little precision is asked for: judge and workers spend most of their time in these loops. A call of less than
0.2 ms cannot be told apart on a CPU."""
AS_IT_WAS = "spin_ns"
SLOWER = "spin_ns * {percent} // 100 if spin_ns == {long} else spin_ns"
"""Longer in one of the two cases."""
SETTINGS = """[tool.kbench.run]
pairs = 10
max_processes = 3
"""
BUSY_SETTINGS = """[tool.kbench]
level = "task"

[tool.kbench.run]
pairs = 4
processes = 3
max_processes = 3

[tool.kbench.gate]
slower = 0.4
"""
needs_quiet = pytest.mark.skipif("KBENCH_TIMING_TESTS" not in os.environ, reason="needs a quiet machine: see above")


def commit(folder: Path, spin: str) -> None:
    layers = f"self.spin_ns = {spin}"
    solution = tiny_corpus.solution(f"return {RESULT}", head=HEAD, layers=layers, takes="spin_ns")
    (folder / "spin" / "timed.py").write_text(solution)
    git(folder, "add", ".")
    git(folder, "commit", "--allow-empty", "-m", spin)


@pytest.fixture
def repository(tmp_path):
    """A problem and its solution, as the first commit has them."""
    folder = new_repository(tmp_path / "work", "spin")
    (folder / "pyproject.toml").write_text(SETTINGS)
    (folder / "spin.py").write_text(PROBLEM)
    commit(folder, AS_IT_WAS)
    return folder


def gate(folder: Path, *arguments: str):
    """Hold the working tree against the commit before its last one; return exit code and document."""
    words = ["gate", "spin.py", "timed", "--against", "HEAD~1", *arguments, "--device", "cpu", "--json"]
    process = commands.start(folder, *words, KBENCH_CACHE=str(folder.parent / "cache"))
    code, out, err = commands.finish(process, TIMEOUT_S)
    assert out, err
    return code, json.loads(out)


def answers(document) -> dict[str, str]:
    return {result["case"]: result["verdict"] for result in document["results"]}


def test_a_commit_that_is_slower_does_not_pass_as_the_same(repository):
    """Nine times as slow: a machine that does other things may leave it unclear, and never calls it anything else."""
    (repository / "pyproject.toml").write_text(BUSY_SETTINGS)
    (repository / "spin.py").write_text(QUICKER)
    commit(repository, SLOWER.format(percent=900, long=250_000))
    code, document = gate(repository, "--case", "long")
    (case,) = document["results"]
    assert (code, answers(document)) in [(1, {"long": "slower"}), (0, {"long": "unclear"})], json.dumps(case)
    found = [look["status"] for look in case["looks"]]
    assert found.count("slower") == 2 or case["verdict"] == "unclear", "found, and found again"


@needs_quiet
def test_a_commit_that_is_5_percent_slower_is_found(repository):
    commit(repository, SLOWER.format(percent=105, long=1_000_000))
    code, document = gate(repository, "--case", "*")
    assert (code, answers(document)) == (1, {"long": "slower", "short": "same"})


@needs_quiet
@pytest.mark.parametrize("_time", range(20))
def test_the_same_commit_passes(repository, _time):
    commit(repository, AS_IT_WAS)
    code, document = gate(repository, "--case", "long")
    assert (code, answers(document)) == (0, {"long": "same"})
