"""`gate --against`: two commits of a solution measured in one run, fake times, real git."""

import subprocess
from pathlib import Path

import pytest
from records import make_row, make_samples
from repositories import git, new_repository

from kbench.catalog import registry
from kbench.core.errors import ExitCode, NothingSelectedError, UsageError
from kbench.core.events import Event, Planned, RunOptions
from kbench.core.verdict import Answer
from kbench.gate import against as verb
from kbench.storage.results import RunWriter
from kbench.storage.settings import GateSettings, Settings

PROBLEM = "Model = get_inputs = get_init_inputs = None\n"


def solution(ratio: float) -> str:
    """A solution whose fake time is in its source."""
    return f"class ModelNew: pass\nRATIO = {ratio}\n"


@pytest.fixture
def repository(tmp_path):
    """Two commits: in the second one, `fast` is 5 % slower, `steady` the same, `late` new."""
    folder = new_repository(tmp_path / "work", "spin")
    (folder / "spin.py").write_text(PROBLEM)
    (folder / "spin" / "fast.py").write_text(solution(0.5))
    (folder / "spin" / "steady.py").write_text(solution(0.5))
    git(folder, "add", ".")
    git(folder, "commit", "-m", "one")
    (folder / "spin" / "fast.py").write_text(solution(0.525))
    (folder / "spin" / "late.py").write_text(solution(0.5))
    git(folder, "add", ".")
    git(folder, "commit", "-m", "two")
    return folder


@pytest.fixture
def measured(monkeypatch):
    """Let `run` write what the sources say; the calls' options and solutions are collected."""
    calls = []

    def run(problem, solutions, options):
        calls.append(([entry.name for entry in solutions], options))
        with RunWriter(options.results_dir, options.name) as writer:
            for entry in solutions:
                ratio = registry.source.parse(entry.path).constants()["RATIO"]
                for process in range(options.processes):
                    row = make_row(problem=problem.name, solution=entry.name, case="small", process=process)
                    wobbling = ratio * (1 + 1e-4 * process)
                    writer.append(row, make_samples(process=process, ratio=wobbling, reference_ns=1.5e8))
        yield Planned(problem=problem.name, solutions=(), cases=(), device="cpu", processes=3)

    monkeypatch.setattr(verb.session, "run", run)
    return calls


def gate(folder: Path, *names: str, revision: str = "HEAD~1", watch=lambda event: None):
    settings = Settings()
    problem = registry.find_problem(folder / "spin.py", settings)
    solutions = [registry.find_solution(problem, name, settings) for name in names]
    return verb.against(problem, solutions, revision, RunOptions(processes=5), GateSettings(), settings, watch)


def test_the_slower_commit_fails_with_the_right_case(repository, measured):
    seen: list[Event] = []
    report = gate(repository, "fast", "steady", watch=seen.append)
    assert report.exit_code is ExitCode.NEGATIVE
    assert {case.solution: case.verdict.status for case in report.cases} == {
        "fast": Answer.SLOWER,
        "steady": Answer.SAME,
    }
    assert report.failed[0].verdict.ratio == pytest.approx(1.05, rel=1e-3)
    assert report.confirmed
    assert len(measured) == 2, "the slow case is measured a second time"
    assert len(seen) == 2, "and both measurements are watched"
    assert [name.partition("@")[0] for name in measured[1][0]] == ["fast", "fast"], "and it alone"


def test_the_same_commit_passes(repository, measured):
    report = gate(repository, "fast", "steady", revision="HEAD")
    assert report.exit_code is ExitCode.OK
    assert {case.verdict.status for case in report.cases} == {Answer.SAME}


def test_an_uncommitted_change_is_what_is_measured(repository, measured):
    (repository / "spin" / "steady.py").write_text(solution(0.6))
    assert gate(repository, "steady", revision="HEAD").exit_code is ExitCode.NEGATIVE


def test_a_new_solution_is_noted_and_alone_it_is_nothing_to_judge(repository, measured):
    report = gate(repository, "late", "steady")
    assert "late is new" in report.notes[0]
    with pytest.raises(NothingSelectedError, match="late is new"):
        gate(repository, "late")


@pytest.mark.parametrize("revision", ["nonsense", "--help", "HEAD~9"])
def test_an_unknown_commit(repository, measured, revision):
    with pytest.raises(UsageError, match="is not a commit"):
        gate(repository, "fast", revision=revision)


def test_outside_a_repository(tmp_path):
    (tmp_path / "file.py").write_text("")
    with pytest.raises(UsageError, match="is in no git repository"):
        verb.repository(tmp_path / "file.py")


def test_the_repository_is_left_as_it_was(repository, measured):
    before = sorted(str(path) for path in repository.rglob("*") if ".git" not in path.parts)
    gate(repository, "fast")
    assert sorted(str(path) for path in repository.rglob("*") if ".git" not in path.parts) == before
    worktrees = subprocess.run(["git", "-C", repository, "worktree", "list"], check=True, capture_output=True)
    assert len(worktrees.stdout.splitlines()) == 1
