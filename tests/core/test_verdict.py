"""The verdict rule: a table of examples, and its properties."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from records import make_row

from kbench.core.levels import Level, Standing
from kbench.core.model import Status, Time
from kbench.core.verdict import MARGIN, Answer, Measurement, Verdict, judge_change, judge_ratios

TIGHT = (-0.0004, -0.0002, 0.0, 0.0002, 0.0004)
"""Five processes of a quiet device: sd 0.03 %."""
LOOSE = (-0.02, -0.01, 0.0, 0.01, 0.02)


def timed(*log_ratios: float, **changes) -> Measurement:
    row = make_row(**changes)
    processes = tuple(range(len(log_ratios)))
    return Measurement(status=Status.PASSED, row=row, processes=processes, log_ratios=log_ratios)


def around(change: float, wobble=TIGHT, **changes) -> Measurement:
    """A measurement `change` slower than a base of ratio 0.5."""
    return timed(*(math.log(0.5) + math.log1p(change) + w for w in wobble), **changes)


def failed(status: Status, reason: str = "") -> Measurement:
    return Measurement(status=status, reason=reason, row=make_row())


BASE = around(0.0)
CRASHED = failed(Status.CRASHED, "signal 11")
WRONG = failed(Status.WRONG_VALUE, "at [0, 0]: got 0, want 1")

EXAMPLES = [
    # old, new, answer, reason, message
    (BASE, BASE, "same", "within_equivalence", "within ±2 %"),
    (BASE, around(0.004), "same", "within_equivalence", "within ±2 %"),
    (BASE, around(0.01), "slower", "above_margin", "above +0.5 %"),
    (BASE, around(0.078), "slower", "above_margin", "above +0.5 %"),
    (BASE, around(-0.066), "faster", "below_margin", "below −0.5 %"),
    (
        BASE,
        around(0.0, LOOSE),
        "unclear",
        "spans_margin",
        "neither beyond ±0.5 % nor within ±2 %; about 6 processes",
    ),
    (BASE, around(0.016, LOOSE), "unclear", "spans_margin", "about 14 processes would decide"),
    (BASE, around(0.2, LOOSE), "slower", "above_margin", "above +0.5 %"),
    (BASE, timed(math.log(0.9)), "unclear", "one_process", "measure with 5 or more"),
    # Another device of the same model, or another driver: the interval is 2 % wider on either side.
    (
        BASE,
        around(0.01, gpu_uuid="GPU-2"),
        "same",
        "within_equivalence",
        "±4 %; bounds 2 % wider for another device",
    ),
    (BASE, around(0.022, gpu_uuid="GPU-2"), "unclear", "spans_margin", "neither beyond ±0.5 % nor within ±4 %"),
    (BASE, around(0.03, gpu_uuid="GPU-2"), "slower", "above_margin", "above +0.5 %"),
    (BASE, around(-0.03, gpu_uuid="GPU-2"), "faster", "below_margin", "below −0.5 %"),
    (BASE, around(0.01, driver="590.1"), "same", "within_equivalence", "within ±4 %"),
    # Correctness comes before speed.
    (BASE, CRASHED, "new_fail", "crashed", "crashed: signal 11"),
    (BASE, WRONG, "new_fail", "wrong_value", "wrong_value: at [0, 0]: got 0, want 1"),
    (CRASHED, BASE, "newly_fixed", "crashed", "was crashed: signal 11"),
    (CRASHED, WRONG, "not_comparable", "both_fail", "fails as before: wrong_value"),
    (
        BASE,
        failed(Status.HARNESS_ERROR, "judge died"),
        "not_comparable",
        "not_evaluated",
        "the new run did not judge",
    ),
    (BASE, failed(Status.NOT_VERIFIED), "not_comparable", "not_evaluated", "not_verified"),
    (failed(Status.SKIPPED), WRONG, "not_comparable", "not_evaluated", "the old run did not judge"),
    # What is measured otherwise is not compared.
    (
        BASE,
        around(0.0, gpu_name="NVIDIA A100"),
        "not_comparable",
        "other_gpu",
        "GPU differs (NVIDIA H200, NVIDIA A100)",
    ),
    (BASE, around(0.0, mode="warm"), "not_comparable", "other_mode", "mode differs (cold, warm)"),
    (BASE, around(0.0, timer="wall"), "not_comparable", "other_timer", "timer differs (device, wall)"),
    (BASE, around(0.0, timer="gate"), "same", "within_equivalence", ""),
    (around(0.0, timer="host"), around(0.0, timer="judge"), "same", "within_equivalence", ""),
    (BASE, replace(around(0.0, timer="", l2=""), log_ratios=()), "not_comparable", "no_timing", "the new run has no"),
    (BASE, around(0.0, l2="warm"), "not_comparable", "other_l2", "L2 treatment differs"),
    (BASE, around(0.0, device="cpu"), "not_comparable", "other_device", "device differs (cuda, cpu)"),
    (BASE, around(0.0, tf32=True), "not_comparable", "other_tf32", "TF32 setting differs"),
    (BASE, around(0.0, findings="eval_mode"), "not_comparable", "other_eval", "eval mode differs"),
    (
        BASE,
        around(0.0, oracle_factor=16.0),
        "not_comparable",
        "other_tolerance",
        "oracle factor differs (4.0, 16.0)",
    ),
    (BASE, around(0.0, isolation="none"), "not_comparable", "other_isolation", "trust in the solution differs"),
    (BASE, around(0.0, overrides='{"n": 3}'), "not_comparable", "other_case", "constants of the case differ"),
    (BASE, around(0.0, problem_sha256="8"), "not_comparable", "other_problem", "problem file has changed"),
    (
        BASE,
        around(0.0, tensors="float32[9] -> float32[9]"),
        "not_comparable",
        "other_problem",
        "inputs or outputs differ",
    ),
    (BASE, around(0.0, tensors="float64[8] -> float32[8]"), "not_comparable", "other_problem", "float64[8]"),
    (BASE, around(0.0, tensors=""), "same", "within_equivalence", ""),
    (BASE, around(0.0, torch="2.12"), "not_comparable", "other_torch", "torch differs (2.11.0, 2.12)"),
    (BASE, around(0.0, cuda="12.8"), "not_comparable", "other_cuda", "CUDA differs"),
    (BASE, timed(), "not_comparable", "no_timing", "the new run has no times"),
    (timed(), BASE, "not_comparable", "no_timing", "the old run has no times"),
    (BASE, replace(BASE, unstable=True), "not_comparable", "unstable", "the new run was throttled or"),
    (BASE, replace(BASE, throttled=True), "not_comparable", "unstable", "the new run was throttled throughout"),
    (replace(BASE, throttled=True), BASE, "not_comparable", "unstable", "the old run was throttled throughout"),
    (replace(BASE, throttled=True), replace(BASE, throttled=True), "same", "within_equivalence", ""),
]


@pytest.mark.parametrize(("old", "new", "answer", "code", "message"), EXAMPLES)
def test_examples(old: Measurement, new: Measurement, answer: str, code: str, message: str) -> None:
    verdict = judge_change(old, new)
    assert (verdict.status, verdict.reason_code) == (answer, code)
    assert message in verdict.message


def test_figures_of_a_verdict() -> None:
    verdict = judge_change(BASE, around(0.078))
    assert verdict.ratio == pytest.approx(1.078, rel=1e-9)
    assert 1.077 < verdict.low < 1.078 < verdict.high < 1.079
    assert (verdict.margin, verdict.processes, verdict.processes_to_decide) == (0.005, 5, None)


def test_bounds_between_devices_hold_what_these_may_differ_by() -> None:
    here = judge_change(BASE, around(0.01))
    there = judge_change(BASE, around(0.01, gpu_uuid="GPU-2"))
    assert (here.low, here.high) != (None, None)
    assert there.ratio == here.ratio
    assert there.low == pytest.approx((here.low or 0) / 1.02)
    assert there.high == pytest.approx((here.high or 0) * 1.02)
    assert (here.between_devices, there.between_devices) == (0.0, 0.02)


@pytest.mark.parametrize("elsewhere", [{}, {"gpu_uuid": "GPU-2"}])
@pytest.mark.parametrize("change", [0.0, 0.004, 0.011, 0.014, -0.013])
def test_the_advised_processes_do_decide(change: float, elsewhere: dict[str, str]) -> None:
    """As many processes as advised, of the same spread and centre, give a clear answer; one less does not."""
    wobble = np.array(LOOSE)
    unclear = judge_change(around(0, wobble), around(change, wobble, **elsewhere))
    assert unclear.status == Answer.UNCLEAR
    needed = unclear.processes_to_decide
    for count, clear in [(needed, True), (needed - 1, False)]:
        wave = np.where(np.arange(count) % 2, 1.0, -1.0)
        wave -= wave.mean()
        wave *= np.std(LOOSE, ddof=1) / np.std(wave, ddof=1)
        verdict = judge_change(around(0, wave), around(change, wave, **elsewhere))
        assert (verdict.status != Answer.UNCLEAR) == clear


def test_pairs_of_one_process_beat_two_runs() -> None:
    """Differences within processes are free of what the processes share."""
    shared = np.array(LOOSE)
    old, new = around(0, shared), around(0.01, shared + np.array(TIGHT))
    assert judge_change(old, new).status == Answer.UNCLEAR
    differences = [n - o for o, n in zip(old.log_ratios, new.log_ratios, strict=True)]
    assert judge_change(old, new, differences=differences).status == Answer.SLOWER
    assert judge_change(old, WRONG, differences=differences).status == Answer.NEW_FAIL


def test_no_shared_process() -> None:
    assert judge_ratios([], MARGIN).reason_code == "no_timing"
    assert judge_ratios([0.5], MARGIN).reason_code == "one_process"


def test_equal_processes_to_the_last_bit() -> None:
    """A spread of zero is an interval of no width, not a division by zero."""
    verdict = judge_change(timed(0.0, 0.0), timed(0.01, 0.01))
    assert verdict.status == Answer.SLOWER
    assert verdict.low == verdict.high


# --- properties ----------------------------------------------------------------

unhurried = settings(deadline=None)
"""Quantiles take milliseconds, and a test machine may be busy."""

sides = st.lists(st.floats(-0.05, 0.05), min_size=2, max_size=8)
SWAPPED = {Answer.SLOWER: Answer.FASTER, Answer.FASTER: Answer.SLOWER}


def judged(old: list[float], new: list[float], margin: float = MARGIN) -> Verdict:
    return judge_change(timed(*old), timed(*new), margin)


def assume_clear_of_edges(verdict: Verdict) -> None:
    """Leave out draws that a rounding error could tip over."""
    edges = [sign * math.log1p(share) for sign in (1, -1) for share in (verdict.margin or 0, 0.02)]
    bounds = [math.log(bound) for bound in (verdict.low, verdict.high) if bound is not None]
    assume(all(abs(bound - edge) > 1e-9 for bound in bounds for edge in edges))


@unhurried
@given(sides, sides)
def test_swap_symmetry(old: list[float], new: list[float]) -> None:
    forth, back = judged(old, new), judged(new, old)
    assume_clear_of_edges(forth)
    assert back.status == SWAPPED.get(forth.status, forth.status)
    assert back.processes_to_decide == forth.processes_to_decide
    assert back.ratio * forth.ratio == pytest.approx(1)


@unhurried
@given(sides, sides, st.floats(-3, 3))
def test_scale_invariance(old: list[float], new: list[float], shift: float) -> None:
    """A reference twice as fast on both sides changes nothing."""
    verdict = judged(old, new)
    assume_clear_of_edges(verdict)
    assert judged([x + shift for x in old], [x + shift for x in new]).status == verdict.status


@unhurried
@given(sides, sides, st.floats(0, 0.05), st.floats(0, 0.05))
def test_a_wider_margin_never_accuses_more(old: list[float], new: list[float], one: float, other: float) -> None:
    narrow, wide = sorted((one, other))
    strict = judged(old, new, narrow).status
    lax = judged(old, new, wide).status
    for accusation in (Answer.SLOWER, Answer.FASTER):
        assert not (lax == accusation and strict != accusation)
    assert not (strict == Answer.SAME and lax != Answer.SAME)


@unhurried
@given(sides, sides, st.floats(0, 0.05))
def test_slowing_the_new_side_never_helps_it(old: list[float], new: list[float], slower: float) -> None:
    order = [Answer.FASTER, Answer.SAME, Answer.UNCLEAR, Answer.SLOWER]
    before, after = judged(old, new).status, judged(old, [x + slower for x in new]).status
    if before == Answer.SLOWER:
        assert after == Answer.SLOWER
    assert not (after == Answer.FASTER and order.index(before) > 0)


@unhurried
@given(sides, sides)
def test_every_draw_has_one_answer_with_its_bounds(old: list[float], new: list[float]) -> None:
    verdict = judged(old, new)
    assert verdict.status in {Answer.SAME, Answer.FASTER, Answer.SLOWER, Answer.UNCLEAR}
    assert verdict.low <= verdict.ratio <= verdict.high


@pytest.mark.parametrize("time", list(Time))
def test_the_reason_names_which_time_was_held(time):
    old, new = replace(BASE, time=time), replace(around(0.078), time=time)
    assert judge_change(old, new).message == f"{time.value} time above +0.5 %"
    nothing = judge_change(replace(old, processes=(), log_ratios=()), new)
    said = {Time.DEVICE: "the old run has no times", Time.WALL: "the old run has no wall times"}
    assert (nothing.status, nothing.message) == (Answer.NOT_COMPARABLE, said[time])


def test_two_different_times_are_not_compared():
    verdict = judge_change(BASE, replace(BASE, time=Time.WALL))
    assert (verdict.reason_code, verdict.message) == ("other_time", "time differs (device, wall)")


@pytest.mark.parametrize("weak", ["old", "new"])
def test_a_weak_attestation_changes_no_answer_and_is_said(weak):
    old, new = BASE, around(-0.2)
    plain = judge_change(old, new)
    marked = {"old": old, "new": new, weak: replace({"old": old, "new": new}[weak], weak=True)}
    said = judge_change(**marked)
    assert replace(said, message=plain.message) == plain
    assert "does not confirm" in said.message


def standing(level: Level, *lacks: str, required: Level = Level.MODULE, accepted: tuple[str, ...] = ()) -> Standing:
    return Standing(level=level, lacks=lacks, required=required, accepted=accepted)


LEVELS = [
    (standing(Level.GENERAL), Status.PASSED, standing(Level.MODULE, "alignment"), "alignment"),
    (
        standing(Level.GENERAL),
        Status.PASSED,
        standing(Level.MODULE, "alignment", accepted=("alignment",)),
        None,
    ),
    (standing(Level.MODULE), Status.BELOW_LEVEL, standing(Level.TASK, "frozen_weights"), "frozen_weights"),
    (standing(Level.MODULE), Status.PASSED, standing(Level.TASK, required=Level.TASK), "other_level"),
    (Standing(), Status.BELOW_LEVEL, standing(Level.TASK, "frozen_weights"), "below_level"),
]


@pytest.mark.parametrize(("old", "status", "new", "code"), LEVELS)
def test_a_level_that_was_held_before_is_held_or_the_case_fails(old, status, new, code) -> None:
    """NEW FAIL names the property that was lost; what was not tried, or is required anew, is not comparable."""
    before = replace(BASE, standing=old)
    after = replace(BASE, status=status, standing=new)
    verdict = judge_change(before, after)
    answer = {None: Answer.SAME, "other_level": Answer.NOT_COMPARABLE}.get(code, Answer.NEW_FAIL)
    assert verdict.status is answer
    if code is not None:
        assert verdict.reason_code == code
    if answer is Answer.NEW_FAIL and code != "below_level":
        assert f"({code})" in verdict.message
