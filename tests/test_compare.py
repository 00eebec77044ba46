"""Comparisons from raw samples: runs side by side, solutions of one run, and what cannot be compared."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
from records import make_row, make_run, make_samples

from kbench.compare import compare, measured, measurements, process_differences
from kbench.core.errors import NothingSelectedError, ResultsError, UsageError
from kbench.core.model import Time
from kbench.core.verdict import Answer, timed_by
from kbench.storage.results import RunWriter, read_run

FIVE = [0.5, 0.5002, 0.4999, 0.5001, 0.4998]
WIDE = [0.5, 0.51, 0.49, 0.505, 0.495]


def slower(by: float) -> list[float]:
    return [ratio * (1 + by) for ratio in FIVE]


def test_measured_recomputes_from_samples_and_ignores_the_summary(tmp_path: Path) -> None:
    """The rows claim a speed-up of 1.5 and 100 us; the samples say 2 and 75 ms."""
    run = make_run(tmp_path, "one", {"fast": FIVE}, speedup=1.5, time_ns_median=100_000)
    found = measured(run)[("group_norm", "fast", "small")]
    assert found.time_ns == pytest.approx(75e6, rel=1e-3)
    assert found.reference_ns == pytest.approx(150e6, rel=1e-3)
    assert found.speedup.low < 2 < found.speedup.high
    assert found.speedup.processes == 5
    assert found.percent_of_limit == 25.0
    assert found.measurement.processes == (0, 1, 2, 3, 4)


@pytest.mark.parametrize("time", Time)
def test_a_failure_has_no_time(tmp_path: Path, time: Time) -> None:
    found = measured(make_run(tmp_path, "one", {"broken": []}), time=time)[("group_norm", "broken", "small")]
    assert (found.time_ns, found.reference_ns, found.speedup, found.percent_of_limit) == (None, None, None, None)
    assert (found.timings, found.measurement.log_ratios, found.passed) == ((), (), False)


def test_one_failing_process_fails_the_case(tmp_path: Path) -> None:
    with RunWriter(tmp_path, "flaky") as writer:
        for process in range(2):
            writer.append(make_row(process=process), make_samples(process=process))
        writer.append(make_row(process=2, status="crashed", timed=False, timer="", l2="", oracle_factor=None))
    found = measured(read_run(writer.csv_path))[("group_norm", "fast", "small")]
    assert (found.measurement.status, found.time_ns) == ("crashed", None)


def test_rows_measured_differently_are_refused(tmp_path: Path) -> None:
    with RunWriter(tmp_path, "mixed") as writer:
        writer.append(make_row(process=0, mode="cold"), make_samples(process=0))
        writer.append(make_row(process=1, mode="warm"), make_samples(process=1))
    with pytest.raises(ResultsError, match="measured differently"):
        measured(read_run(writer.csv_path))


def test_events_and_the_judges_clock_tell_of_the_same_rounds(tmp_path: Path) -> None:
    """Which of them a row quotes may differ between the processes of one case."""
    with RunWriter(tmp_path, "both") as writer:
        for process, timer in enumerate(["events", "gate", "events"]):
            writer.append(make_row(process=process, timer=timer), make_samples(process=process))
    (found,) = measured(read_run(writer.csv_path)).values()
    assert timed_by(found.measurement.row) == "device"
    with RunWriter(tmp_path, "waits") as writer:
        for process, timer in enumerate(["events", "wall"]):
            writer.append(make_row(process=process, timer=timer), make_samples(process=process))
    with pytest.raises(ResultsError, match="measured differently"):
        measured(read_run(writer.csv_path))


def test_wall_times_are_those_of_the_rows(tmp_path: Path) -> None:
    run = make_run(tmp_path, "one", {"fast": FIVE[:3]}, wall_ns=[100_000, 100_100, 99_900], ref_wall_ns=200_000)
    (found,) = measured(run, time=Time.WALL).values()
    assert (found.time_ns, found.reference_ns, found.percent_of_limit) == (100_000, 200_000, None)
    assert found.speedup.low < 2 < found.speedup.high
    assert found.measurement.time is Time.WALL
    assert found.measurement.processes == (0, 1, 2)
    assert found.measurement.log_ratios[0] == pytest.approx(math.log(0.5))


def test_wall_times_are_compared_whatever_clock_the_device_times_are_of(tmp_path: Path) -> None:
    """A solution that began to wait for the device has no device time to compare, and a wall time."""
    walls = [100_000, 100_100, 99_900]
    old = make_run(tmp_path, "old", {"a": FIVE[:3]}, wall_ns=walls)
    new = make_run(tmp_path, "new", {"a": FIVE[:3]}, wall_ns=[2 * wall for wall in walls], timer="wall")
    (case,) = compare([old, new]).cases
    assert case.verdict.reason_code == "other_timer"
    (case,) = compare([old, new], time=Time.WALL).cases
    assert (case.verdict.status, case.verdict.message) == (Answer.SLOWER, "wall time above +0.5 %")
    assert case.verdict.ratio == pytest.approx(2, rel=1e-2)
    (line,) = compare([new, new]).cases
    assert line.verdict.message == "wall time within ±2 %", "all there is of a solution that waits for the device"


def test_too_many_marked_pairs_are_unstable(tmp_path: Path) -> None:
    with RunWriter(tmp_path, "hot") as writer:
        writer.append(make_row(), make_samples(marked=(0, 1, 2)))
    assert measurements(read_run(writer.csv_path))[("group_norm", "fast", "small")].unstable
    calm = make_run(tmp_path, "calm", {"fast": [0.5]})
    assert not measurements(calm)[("group_norm", "fast", "small")].unstable


def test_a_solution_that_is_always_throttled_is_compared_with_its_like(tmp_path: Path) -> None:
    for name in ("capped", "again"):
        with RunWriter(tmp_path, name) as writer:
            for process, ratio in enumerate(FIVE):
                samples = make_samples(process=process, ratio=ratio, marked=tuple(range(10)))
                writer.append(make_row(process=process), samples)
    capped, again = (read_run(tmp_path / f"{name}.csv") for name in ("capped", "again"))
    (case,) = compare([capped, again]).cases
    assert case.verdict.status is Answer.SAME
    assert measurements(capped)[("group_norm", "fast", "small")].throttled
    (case,) = compare([make_run(tmp_path, "calm", {"fast": FIVE}), capped]).cases
    assert (case.verdict.status, case.verdict.reason_code) == (Answer.NOT_COMPARABLE, "unstable")
    assert "the new run was throttled throughout, the old run was not" in case.verdict.message


# --- runs ----------------------------------------------------------------------


def test_two_runs(tmp_path: Path) -> None:
    old = make_run(tmp_path, "old", {"a": FIVE, "b": FIVE, "c": FIVE, "gone": FIVE, "d": []})
    new = make_run(tmp_path, "new", {"a": FIVE, "b": slower(0.05), "c": [], "d": FIVE, "fresh": FIVE})
    comparison = compare([old, new])
    answers = {case.solution: case.verdict.status for case in comparison.cases if case.verdict}
    assert answers == {
        "a": Answer.SAME,
        "b": Answer.SLOWER,
        "c": Answer.NEW_FAIL,
        "d": Answer.NEWLY_FIXED,
        "gone": Answer.NOT_COMPARABLE,
        "fresh": Answer.NOT_COMPARABLE,
    }
    codes = {case.solution: case.verdict.reason_code for case in comparison.cases if case.verdict}
    assert (codes["gone"], codes["fresh"]) == ("not_in_new", "not_in_old")
    assert (comparison.by, comparison.base, comparison.labels) == ("run", "old", ("new",))
    assert comparison.counts[Answer.NOT_COMPARABLE] == 2
    assert comparison.geometric_mean("new") == pytest.approx(1.05**0.5, rel=1e-3)


def test_three_runs_against_the_first(tmp_path: Path) -> None:
    runs = [make_run(tmp_path, name, {"a": slower(by)}) for name, by in [("x", 0), ("y", 0.05), ("z", -0.05)]]
    comparison = compare(runs)
    assert [(case.label, case.verdict.status) for case in comparison.cases if case.verdict] == [
        ("y", Answer.SLOWER),
        ("z", Answer.FASTER),
    ]


def test_runs_of_one_name_keep_apart(tmp_path: Path) -> None:
    old = make_run(tmp_path / "a", "run", {"a": FIVE})
    new = make_run(tmp_path / "b", "run", {"a": FIVE})
    comparison = compare([old, new])
    assert (comparison.base, comparison.labels) == ("run (1)", ("run (2)",))


def test_another_gpu_gets_a_ratio_without_verdict(tmp_path: Path) -> None:
    old = make_run(tmp_path, "h200", {"a": FIVE})
    new = make_run(tmp_path, "a100", {"a": slower(0.5)}, gpu_name="NVIDIA A100", gpu_uuid="GPU-9")
    (case,) = compare([old, new]).cases
    assert (case.verdict.status, case.verdict.reason_code) == (Answer.NOT_COMPARABLE, "other_gpu")
    assert case.verdict.ratio == pytest.approx(1.5, rel=1e-3)
    assert case.verdict.low is None


def test_the_margin_is_the_callers(tmp_path: Path) -> None:
    old, new = make_run(tmp_path, "old", {"a": FIVE}), make_run(tmp_path, "new", {"a": slower(0.05)})
    (case,) = compare([old, new], margin=0.08).cases
    assert case.verdict.status == Answer.SAME


# --- solutions -----------------------------------------------------------------


def test_solutions_of_one_run_are_paired_by_process(tmp_path: Path) -> None:
    """Processes differ by 4 %, both solutions alike: only the pairing can see the 1 % between them."""
    moving = [0.5, 0.51, 0.49, 0.52, 0.5]
    run = make_run(tmp_path, "run", {"base": moving, "new": [r * 1.01 for r in moving], "broken": []})
    comparison = compare([run])
    base, new, broken = comparison.cases
    assert base.verdict is None
    assert (new.verdict.status, broken.verdict.status) == (Answer.SLOWER, Answer.NEW_FAIL)
    assert (comparison.by, comparison.base) == ("solution", "base")


def test_a_base_of_choice(tmp_path: Path) -> None:
    run = make_run(tmp_path, "run", {"a": FIVE, "b": slower(0.1)})
    first, second = compare([run], base="b").cases
    assert second.verdict is None
    assert first.verdict.status == Answer.FASTER
    with pytest.raises(UsageError, match="no solution `bb`") as caught:
        compare([run], base="bb")
    assert caught.value.hint == "did you mean `b`?"


# --- what makes no comparison --------------------------------------------------


def test_no_run_is_no_comparison() -> None:
    with pytest.raises(UsageError, match="no run to compare"):
        compare([])


def test_no_case_left(tmp_path: Path) -> None:
    run = make_run(tmp_path, "run", {"a": FIVE})
    with pytest.raises(NothingSelectedError):
        compare([run], cases=["nothing*"])
    assert len(compare([run], cases=["sm*"]).cases) == 1


def test_process_differences_pair_what_shares_a_process(tmp_path: Path) -> None:
    found = measurements(make_run(tmp_path, "run", {"a": [0.5, 0.6, 0.7], "b": [0.515, 0.618]}))
    old, new = (found["group_norm", name, "small"] for name in "ab")
    assert process_differences(old, new) == pytest.approx([math.log(1.03)] * 2, abs=1e-4)
    assert process_differences(new, replace(old, processes=(7, 8, 9))) == ()


def test_unclear_cases_alone_have_no_mean(tmp_path: Path) -> None:
    old = make_run(tmp_path, "old", {"a": WIDE, "b": FIVE})
    new = make_run(tmp_path, "new", {"a": WIDE, "b": FIVE})
    assert compare([old, new]).geometric_mean("new") == pytest.approx(1)
    alone = [replace(run, rows=tuple(row for row in run.rows if row.solution == "a")) for run in (old, new)]
    unclear = compare(alone)
    assert unclear.counts == {Answer.UNCLEAR: 1}
    assert unclear.geometric_mean("new") is None
