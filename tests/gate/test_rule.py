"""The gate: exit codes, second looks, creep, and that nothing unjudged is green."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from records import FIVE, against_itself, calibration, make_run, times

from kbench.compare import measurements
from kbench.core.errors import ExitCode, UsageError
from kbench.core.verdict import Answer, Measurement
from kbench.gate.rule import Contest, GateOutcome, GateReport, decide, gate, report
from kbench.storage.results import CaseKey, Run
from kbench.storage.settings import GateOverride, GateSettings

WIDE = [0.5, 0.51, 0.49, 0.505, 0.495]
A = ("group_norm", "a", "small")


@pytest.fixture
def main(tmp_path: Path) -> Run:
    return make_run(tmp_path, "main", {"a": FIVE, "b": FIVE})


class Again:
    """Stands for `run` in a confirmation: gives the ratios it was told, and remembers what it was asked."""

    def __init__(self, directory: Path, *answers: dict[str, list[float]]):
        self.directory, self.answers, self.asked = directory, list(answers), []

    def __call__(self, keys: tuple[CaseKey, ...], processes: int) -> Mapping[CaseKey, Measurement]:
        self.asked.append((keys, processes))
        ratios = self.answers.pop(0)
        run = make_run(self.directory, "again", {key[1]: ratios[key[1]] for key in keys})
        return measurements(run)


def only(result: GateReport, solution: str = "a"):
    return next(case for case in result.cases if case.solution == solution)


# --- one look ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ratios", "answer", "code"),
    [
        (FIVE, "same", 0),
        (times(1.05), "slower", 1),
        (times(0.95), "faster", 0),
        ([], "new_fail", 1),
        (times(1.01, WIDE), "unclear", 0),
        ([0.5], "unclear", 0),
    ],
)
def test_exit_codes(main: Run, tmp_path: Path, ratios: list[float], answer: str, code: int) -> None:
    result = gate(make_run(tmp_path, "pr", {"a": ratios, "b": FIVE}), main)
    assert (only(result).verdict.status, result.exit_code) == (answer, code)
    assert [case.solution for case in result.failed] == (["a"] if code else [])


def test_the_right_case_is_named_and_the_worst_comes_first(tmp_path: Path) -> None:
    names = ["a", "b", "c", "d"]
    old = make_run(tmp_path, "main", dict.fromkeys(names, FIVE))
    new = make_run(tmp_path, "pr", {"a": times(1.02), "b": FIVE, "c": [], "d": times(1.09)})
    result = gate(new, old)
    assert [case.name for case in result.failed] == ["group_norm/c/small", "group_norm/d/small", "group_norm/a/small"]
    assert result.counts == {Answer.SLOWER: 2, Answer.SAME: 1, Answer.NEW_FAIL: 1}


@pytest.mark.parametrize(("unclear", "code"), [("pass", 0), ("warn", 0), ("fail", 4)])
def test_unclear_is_a_choice(main: Run, tmp_path: Path, unclear: str, code: int) -> None:
    run = make_run(tmp_path, "pr", {"a": times(1.01, WIDE), "b": FIVE})
    assert gate(run, main, GateSettings(unclear=unclear)).exit_code == code


@pytest.mark.parametrize(("unclear", "code"), [("pass", 0), ("warn", 4), ("fail", 4)])
def test_unclear_cases_alone_are_no_answer(main: Run, tmp_path: Path, unclear: str, code: int) -> None:
    old = replace(main, rows=tuple(row for row in main.rows if row.solution == "a"))
    assert (
        gate(make_run(tmp_path, "pr", {"a": times(1.01, WIDE)}), old, GateSettings(unclear=unclear)).exit_code == code
    )


def test_a_missing_case_is_never_green(main: Run, tmp_path: Path) -> None:
    run = make_run(tmp_path, "pr", {"a": FIVE})
    result = gate(run, main)
    assert (only(result, "b").verdict.reason_code, result.exit_code) == ("not_in_new", ExitCode.ENVIRONMENT)
    assert gate(run, main, GateSettings(missing="warn")).exit_code == ExitCode.OK


def test_a_gate_with_nothing_to_judge_is_not_green(main: Run, tmp_path: Path) -> None:
    run = make_run(tmp_path, "pr", {"new": FIVE})
    result = gate(run, main, GateSettings(missing="warn"))
    assert result.exit_code == ExitCode.NOTHING_SELECTED
    assert report("pr", "main", [], confirmed=False).exit_code == ExitCode.NOTHING_SELECTED


def test_a_new_case_warns_and_a_wrong_new_case_fails(main: Run, tmp_path: Path) -> None:
    fine = gate(make_run(tmp_path, "pr", {"a": FIVE, "b": FIVE, "new": FIVE}), main)
    assert (only(fine, "new").outcome, fine.exit_code) == (GateOutcome.WARNED, ExitCode.OK)
    wrong = gate(make_run(tmp_path, "pr", {"a": FIVE, "b": FIVE, "new": []}), main)
    assert (only(wrong, "new").verdict.status, wrong.exit_code) == (Answer.NEW_FAIL, ExitCode.NEGATIVE)
    broken = make_run(tmp_path, "pr", {"a": FIVE, "b": FIVE, "new": []}, status="harness_error")
    assert only(gate(replace_status(broken, "a", "b"), main), "new").outcome == GateOutcome.NO_VERDICT


def replace_status(run: Run, *solutions: str) -> Run:
    """Let the named solutions of a run pass, whatever all of it was given as status."""
    rows = tuple(replace(row, status="passed") if row.solution in solutions else row for row in run.rows)
    return replace(run, rows=rows)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"gpu_name": "NVIDIA A100"}, "other_gpu"),
        ({"flags": "unstable"}, "unstable"),
        ({"status": "harness_error"}, "not_evaluated"),
    ],
)
def test_what_cannot_be_compared_is_not_green(main: Run, tmp_path: Path, change: dict, code: str) -> None:
    result = gate(make_run(tmp_path, "pr", {"a": FIVE, "b": FIVE}, **change), main)
    assert (only(result).verdict.reason_code, result.exit_code) == (code, ExitCode.ENVIRONMENT)


def test_margins_of_choice(main: Run, tmp_path: Path) -> None:
    run = make_run(tmp_path, "pr", {"a": times(1.05), "b": times(1.05)})
    assert gate(run, main, GateSettings(slower=0.08)).exit_code == ExitCode.OK
    result = gate(run, main, GateSettings(slower=0.01, override={"*/a/*": GateOverride(slower=0.08)}))
    assert [case.solution for case in result.failed] == ["b"]


# --- second looks --------------------------------------------------------------


def test_slower_twice_fails(main: Run, tmp_path: Path) -> None:
    again = Again(tmp_path, {"a": times(1.05)})
    result = gate(make_run(tmp_path, "pr", {"a": times(1.05), "b": FIVE}), main, confirm=again)
    assert (result.exit_code, result.confirmed) == (ExitCode.NEGATIVE, True)
    assert again.asked == [((A,), 5)]
    assert [look.status for look in only(result).looks] == [Answer.SLOWER, Answer.SLOWER]


SLOW, NOISY = times(1.05), times(1.01, WIDE)


@pytest.mark.parametrize(
    ("first", "looks"), [(SLOW, [FIVE]), (SLOW, [times(0.95)]), (NOISY, [times(1.02), FIVE])], ids=range(3)
)
def test_slower_once_does_not(main: Run, tmp_path: Path, first: list[float], looks: list[list[float]]) -> None:
    again = Again(tmp_path, *({"a": look} for look in looks))
    result = gate(make_run(tmp_path, "pr", {"a": first, "b": FIVE}), main, confirm=again)
    case = only(result)
    assert (case.verdict.status, case.verdict.reason_code) == (Answer.UNCLEAR, "not_confirmed")
    assert (case.outcome, result.exit_code) == (GateOutcome.WARNED, ExitCode.OK)


@pytest.mark.parametrize(
    ("first", "looks", "answer", "code"),
    [
        # A noisy confirmation does not excuse a slow case.
        (SLOW, [NOISY, SLOW], "slower", 1),
        (SLOW, [NOISY, NOISY], "unclear", 0),
        (SLOW, [NOISY, FIVE], "unclear", 0),
        (SLOW, [NOISY, []], "new_fail", 1),
        (SLOW, [[]], "new_fail", 1),
        (NOISY, [times(1.02), times(1.02)], "slower", 1),
        (times(1.0, WIDE), [NOISY], "unclear", 0),
    ],
    ids=range(7),
)
def test_there_are_as_many_looks_as_are_needed(main, tmp_path, first, looks, answer, code):
    again = Again(tmp_path, *({"a": look} for look in looks))
    result = gate(make_run(tmp_path, "pr", {"a": first, "b": FIVE}), main, confirm=again)
    assert (only(result).verdict.status, result.exit_code, len(again.asked)) == (answer, code, len(looks))


def test_unclear_is_measured_again_with_as_many_processes_as_would_decide(main: Run, tmp_path: Path) -> None:
    again = Again(tmp_path, {"a": FIVE})
    result = gate(make_run(tmp_path, "pr", {"a": times(1.0, WIDE), "b": FIVE}), main, confirm=again)
    ((keys, processes),) = again.asked
    assert keys == (A,)
    assert 5 < processes <= 20
    assert only(result).verdict.status == Answer.SAME


def test_a_confirmation_that_measures_nothing(main: Run, tmp_path: Path) -> None:
    run = make_run(tmp_path, "pr", {"a": times(1.05), "b": FIVE})
    result = gate(run, main, GateSettings(unclear="fail"), confirm=lambda keys, processes: {})
    assert only(result).verdict.reason_code == "not_confirmed"
    assert result.exit_code == ExitCode.INCONCLUSIVE


def test_what_is_settled_is_not_measured_again(main: Run, tmp_path: Path) -> None:
    again = Again(tmp_path)
    assert gate(make_run(tmp_path, "pr", {"a": FIVE, "b": times(0.9)}), main, confirm=again).exit_code == 0
    assert again.asked == []


def test_an_unstable_case_gets_a_second_chance(main: Run, tmp_path: Path) -> None:
    again = Again(tmp_path, {"a": FIVE, "b": FIVE})
    run = make_run(tmp_path, "pr", {"a": FIVE, "b": FIVE}, flags="unstable")
    assert gate(run, main, confirm=again).exit_code == ExitCode.OK


# --- creep ---------------------------------------------------------------------


def test_creep_is_bounded_by_the_oldest_version_of_the_baseline(tmp_path: Path) -> None:
    """Each step is +0.4 %, which no pairwise gate sees; against the oldest the sixth is over 2 %."""
    steps = [make_run(tmp_path, f"step{n}", {"a": times(1.004**n)}) for n in range(8)]
    codes = [gate(new, old, versions=steps[: steps.index(new)]).exit_code for old, new in pairwise(steps)]
    assert codes == [0, 0, 0, 0, 0, 1, 1]
    late = gate(steps[7], steps[6], versions=steps[:7])
    creep = only(late).creep
    assert (creep.reason_code, only(late).verdict.status) == ("creep", Answer.SAME)
    again = Again(tmp_path, {"a": times(1.004**7)})
    assert gate(steps[7], steps[6], versions=steps[:7], confirm=again).exit_code == 1
    assert len(again.asked) == 1
    assert gate(steps[7], steps[6], versions=steps[:7], confirm=Again(tmp_path, {"a": FIVE})).exit_code == 0


# --- calibration ---------------------------------------------------------------


def test_a_margin_below_the_noise_is_refused(main: Run, tmp_path: Path) -> None:
    run, policy = make_run(tmp_path, "pr", {"a": FIVE, "b": FIVE}), GateSettings(slower=0.005)
    noisy, quiet = against_itself(9e6, 0.003), against_itself(9e6, 0.0005)
    with pytest.raises(UsageError, match=r"group_norm/a/small: 5 processes .* a margin of 0.5 % is asked for"):
        gate(run, main, policy, calibration=calibration(noisy))
    for fitting in (calibration(quiet), calibration(noisy, gpu_uuid="GPU-2")):
        assert gate(run, main, policy, calibration=fitting).exit_code == 0


def test_the_default_margin_widens_to_what_can_be_told(main: Run, tmp_path: Path) -> None:
    run = make_run(tmp_path, "pr", {"a": times(1.008), "b": FIVE})
    assert gate(run, main).exit_code == ExitCode.NEGATIVE
    noisy = gate(run, main, calibration=calibration(against_itself(9e6, 0.004)))
    assert noisy.exit_code == ExitCode.OK
    assert "; this is its margin" in noisy.notes[0]
    assert (only(noisy).verdict.margin or 0) > 0.008


# --- three arms ----------------------------------------------------------------


def test_three_arms_without_a_baseline_file(main: Run) -> None:
    """Old and new in the same processes: the ratios to the reference may wander, their difference decides."""
    found = measurements(main)
    contests = {
        CaseKey("group_norm", name, "small"): Contest(
            old=found[A], new=found[A], differences=tuple(float(np.log1p(share)) + w for w in (-1e-4, 0, 1e-4))
        )
        for name, share in [("a", 0.03), ("b", 0.0)]
    }
    asked = []

    def remeasure(keys, processes):
        asked.append(keys)
        return {key: contests[key] for key in keys}

    decided = decide(contests, GateSettings(), remeasure=remeasure)
    assert [case.verdict.status for case in decided.values()] == [Answer.SLOWER, Answer.SAME]
    assert asked == [(A,)]
    assert report("HEAD", "main", list(decided.values()), confirmed=True).exit_code == ExitCode.NEGATIVE
