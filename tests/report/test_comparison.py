"""What a comparison says of times that tell another change than their ratios, and of runs without a common case."""

from types import SimpleNamespace

import pytest

from kbench.core.verdict import Answer, Verdict
from kbench.report.comparison import contradicts, hints, shared_reasons, unshared_reason


def case(old_ns: float | None, new_ns: float | None, low: float | None, ratio: float | None, high: float | None):
    """Return a case with two times, and a change with its bounds."""
    verdict = Verdict(status=Answer.FASTER, reason_code="x", message="", ratio=ratio, low=low, high=high)
    return SimpleNamespace(
        verdict=verdict, old=SimpleNamespace(time_ns=old_ns), new=SimpleNamespace(time_ns=new_ns), solution="s"
    )


@pytest.mark.parametrize(
    ("found", "apart"),
    [
        (case(78.7, 62.1, 0.10, 0.26, 0.67), True),  # the reference had become slower as well
        (case(78.7, 29.0, 0.26, 0.37, 0.55), False),
        (case(100.0, 101.0, 0.9995, 1.0, 1.0005), False),  # a hundredth is no contradiction
        (case(100.0, 150.0, 0.5, 1.0, 2.0), False),  # wide bounds hold it
        (case(None, 62.1, 0.10, 0.26, 0.67), False),
        (case(78.7, 62.1, None, None, None), False),
    ],
)
def test_times_that_contradict_their_change(found, apart):
    assert contradicts(found) is apart


@pytest.mark.parametrize(
    ("sides", "hinted"),
    [
        ([("old", None), (None, "new")], True),
        ([("old", None), ("old", "new")], False),
        ([], False),
    ],
)
def test_runs_without_a_common_case_are_told_how_two_solutions_are_compared(sides, hinted):
    base = SimpleNamespace(verdict=None, old=None, new="base")
    cases = [SimpleNamespace(verdict="one", old=old, new=new) for old, new in sides]
    assert bool(hints(SimpleNamespace(cases=[base, *cases]))) is hinted


@pytest.mark.parametrize(
    ("found", "below", "kept"),
    [
        ([("UNCLEAR", "wide"), ("UNCLEAR", "wide")], ["UNCLEAR (2 cases): wide"], ["", ""]),
        ([("same", "w"), ("FASTER", "x"), ("same", "w")], ["same (2 cases): w"], ["", "x", ""]),
        ([("SLOWER", "above"), ("FASTER", "above")], [], ["above", "above"]),
        ([("same", ""), ("same", "")], [], ["", ""]),
        ([("NEW FAIL", "a\nb\x1b[31m"), ("NEW FAIL", "a\nb\x1b[31m")], ["NEW FAIL (2 cases): a b\\x1b[31m"], ["", ""]),
        ([("SLOWER", "a"), ("same", "b")] * 3, ["SLOWER (3 cases): a", "same (3 cases): b"], [""] * 6),
    ],
)
def test_a_reason_that_cases_share_stands_once(found, below, kept):
    shared = shared_reasons(found)
    assert [*shared.values()] == below
    assert [unshared_reason(word, SimpleNamespace(message=reason), shared) for word, reason in found] == kept
