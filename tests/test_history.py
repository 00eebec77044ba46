"""The history of a case: steps that both neighbours see, what changed, and creep that no step shows."""

from pathlib import Path

import pytest
from records import FIVE, make_run, times
from repositories import git, new_repository

from kbench.core.verdict import Answer
from kbench.gate.rule import gate
from kbench.history import anchors, histories
from kbench.storage.versions import versions


def runs(folder: Path, factors: list[float | None], **changes):
    """One run for each factor of the time, `None` for one that crashes; a list has a value for each run."""
    made = []
    for number, factor in enumerate(factors):
        own = {name: value[number] if isinstance(value, list) else value for name, value in changes.items()}
        ratios = [] if factor is None else times(factor)
        day = {"started_utc": f"2026-11-{number + 1:02}T12:00:00Z", "git_commit": f"{number}bcdef", "git_dirty": False}
        made.append(make_run(folder, f"run{number}", {"a": ratios}, **(day | own)))
    return made


def only(folder: Path, factors: list[float | None], **changes):
    (found,) = histories(runs(folder, factors, **changes))
    return found


@pytest.mark.parametrize(
    ("factors", "steps"),
    [
        ([1, 1, 1.05, 1.05], [(2, Answer.SLOWER, True)]),
        ([1, 1, 0.9, 0.9, 1, 1], [(2, Answer.FASTER, True), (4, Answer.SLOWER, True)]),
        ([1, 1, 1, 1.05], [(3, Answer.SLOWER, False)]),
        ([1, 1, 1.05, 1, 1], []),
        ([1, None, None, 1], [(1, Answer.NEW_FAIL, True), (3, Answer.NEWLY_FIXED, False)]),
        ([1, 1, 1, 1], []),
    ],
)
def test_a_step_is_seen_from_both_runs_before_it_and_both_after_it(tmp_path, factors, steps):
    found = only(tmp_path, factors)
    assert [(one.at, one.verdict.status, one.confirmed) for one in found.steps] == steps
    assert found.creep is None


def test_a_step_names_the_commits_or_the_driver_that_changed(tmp_path):
    found = only(tmp_path, [1, 1, 1.1, 1.1])
    assert [one.cause for one in found.steps] == ["commit 1bcdef → 2bcdef"]
    found = only(tmp_path, [1, 1, 1.1, 1.1], driver=["570", "570", "580", "580"])
    assert [one.cause for one in found.steps] == ["driver 570 → 580"]
    assert found.steps[0].verdict.between_devices, "its bounds are wider"


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"torch": ["2.10", "2.10", "2.11", "2.11"]}, "torch 2.10 → 2.11"),
        ({"problem_sha256": ["7" * 64, "7" * 64, "8" * 64, "8" * 64]}, "the problem file has changed"),
        (
            {"torch": ["2.10", "2.10", "2.11", "2.11"], "driver": ["1", "1", "2", "2"]},
            "driver 1 → 2, torch 2.10 → 2.11",
        ),
    ],
)
def test_what_cannot_be_compared_breaks_a_history(tmp_path, changes, cause):
    """Also where the times on both sides are alike, or would be a step."""
    for factors in ([1, 1, 1, 1], [1, 1, 1.2, 1.2]):
        (step,) = only(tmp_path, factors, **changes).steps
        assert (step.at, step.verdict.status, step.cause) == (2, Answer.NOT_COMPARABLE, cause)


def test_creep_is_no_step_and_ends_with_one(tmp_path):
    slow = [1.004**n for n in range(9)]
    found = only(tmp_path, slow)
    assert not found.steps
    assert found.creep.reason_code == "creep"
    assert found.creep.ratio == pytest.approx(1.004**8, rel=1e-3)
    assert only(tmp_path, slow[:5]).creep is None, "1.6 % is no creep yet"
    assert only(tmp_path, [*slow, 1.2, 1.2]).creep is None, "the step was seen"


def test_devices_and_cases_have_histories_of_their_own_and_unjudged_runs_are_left_out(tmp_path):
    names = ["NVIDIA H100", "NVIDIA H200", "NVIDIA H200"]
    found = histories(runs(tmp_path, [1, 2, 2], gpu_name=names))
    assert [(one.gpu_name, len(one.points)) for one in found] == [("NVIDIA H100", 1), ("NVIDIA H200", 2)]
    skipped = make_run(tmp_path, "skipped", {"a": []}, status="skipped")
    assert not histories([skipped])


def committed(tmp_path: Path, factors: list[float]):
    """A repository that has a baseline's file, with one commit for each factor; a file that is broken in between."""
    folder = new_repository(tmp_path / "repository", "baselines")
    for number, run in enumerate(runs(tmp_path, factors)):
        for path in (run.path, run.path.with_name(f"{run.path.stem}.samples.csv")):
            (folder / "baselines" / path.name.replace(run.path.stem, "p")).write_text(path.read_text())
        git(folder, "add", "-A")
        git(folder, "commit", "-m", f"{number}")
        if number == 1:
            (folder / "baselines" / "p.csv").write_text("broken\n")
            git(folder, "commit", "-am", "broken")
    return folder / "baselines" / "p.csv"


def test_the_gate_finds_creep_against_the_oldest_version_of_its_baseline(tmp_path):
    """Each commit of the baseline is 0.4 % slower than the one before, which no gate sees."""
    path = committed(tmp_path, [1.004**n for n in range(7)])
    known = [*versions(path)]
    assert [one.rows[0].git_commit[0] for one in known] == list("0123456"), "the oldest first, the broken one left out"
    late = make_run(tmp_path, "late", {"a": times(1.004**7)})
    assert gate(late, known[-1]).exit_code == 0, "without versions it is not seen"
    result = gate(late, known[-1], versions=known)
    (case,) = result.cases
    assert (result.exit_code, case.verdict.status, case.creep.reason_code) == (1, Answer.SAME, "creep")
    assert "slower than the oldest accepted baseline (commit 0bcdef)" in case.creep.message
    assert gate(make_run(tmp_path, "same", {"a": FIVE}), known[-1], versions=known).exit_code == 0


def test_a_slow_down_that_was_accepted_as_a_baseline_is_where_creep_begins(tmp_path):
    path = committed(tmp_path, [1, 1, 1.1, 1.1])
    known = [*versions(path)]
    assert {key.solution: one.commit for key, one in anchors(known).items()} == {"a": "2bcdef"}
    assert gate(make_run(tmp_path, "same", {"a": times(1.1)}), known[-1], versions=known).exit_code == 0


def test_a_file_outside_a_repository_has_no_versions(tmp_path):
    assert not [*versions(make_run(tmp_path, "alone", {"a": FIVE}).path)]
