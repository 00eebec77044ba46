"""Two measurements of one case, old and new -> one of seven answers, with its reason (docs/adr/0010-verdict-rule.md).

SLOWER if all of the interval is above the margin, FASTER if below, SAME if within what counts as equal, else UNCLEAR.
"""

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from operator import attrgetter

import numpy as np

from kbench.core.levels import PROPERTIES, UNKNOWN, Standing, blocking, foremost, listed, lost, untried
from kbench.core.model import ResultRow, Status, Time
from kbench.core.stats import CONFIDENCE, Interval, difference_interval, ratio_interval, t_quantile

MOST_PROCESSES = 100
"""Chosen. Larger numbers of processes that would decide are not worth recommending."""
MARGIN = 0.005
"""Share by which a case may be slower, where no other margin is asked for."""
EQUAL = 0.02
"""SAME claims that a change is smaller than this share, or than the margin if that is larger. Two H200s differ by as
much, with any number of processes (results/h200/README.md): an interval between devices is wider by it on each side."""
UNPROVED = "the judge's clock does not confirm the times (`attestation` is weak)"

NOT_EVALUATED = frozenset({Status.HARNESS_ERROR, Status.REFERENCE_FAILED, Status.NOT_VERIFIED, Status.SKIPPED})
"""Statuses that say nothing about the solution."""

EVAL_MODE = "eval_mode"
"""Code of the finding that both sides ran in eval mode."""


class Answer(StrEnum):
    """The answer for one case."""

    SAME = "same"
    FASTER = "faster"
    SLOWER = "slower"
    UNCLEAR = "unclear"
    NEW_FAIL = "new_fail"
    NEWLY_FIXED = "newly_fixed"
    NOT_COMPARABLE = "not_comparable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """A measurement of one (problem, solution, case): its status, and its ratios if it was timed.

    `log_ratios` are log(t_candidate / t_reference), one for each of `processes`, their indices.
    """

    status: Status
    reason: str = ""
    row: ResultRow
    """One of its rows, which share the conditions."""
    processes: tuple[int, ...] = ()
    log_ratios: tuple[float, ...] = ()
    unstable: bool = False
    """Too many pairs were marked as throttled or disturbed, and too few for `throttled`."""
    throttled: bool = False
    """Nearly all pairs were marked: these calls bring the device to its power cap."""
    standing: Standing = UNKNOWN
    weak: bool = False
    """The judge's clock can neither prove nor refute its times."""
    time: Time = Time.DEVICE


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One answer. `ratio` is t_new / t_old, with the two one-sided bounds that decided.

    Between devices the bounds include `between_devices` on either side.
    """

    status: Answer
    reason_code: str
    message: str
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    margin: float | None = None
    between_devices: float = 0.0
    processes: int = 0
    """Number of processes of the side that has fewer."""
    processes_to_decide: int | None = None


def evaluates(row: ResultRow) -> bool:
    """Return whether both sides ran in eval mode."""
    return EVAL_MODE in row.findings.split()


def timed_by(row: ResultRow) -> str:
    """Name the kind of a row's times, which can be compared with those of this kind only.

    Events and the judge's clock measure the same rounds, as on a CPU do the worker's clock and the judge's.
    """
    return {"events": "device", "gate": "device", "judge": "host"}.get(row.timer, row.timer)


CONDITIONS: dict[str, tuple[str, Callable[[ResultRow], object]]] = {
    "other_device": ("device", attrgetter("device")),
    "other_gpu": ("GPU", attrgetter("gpu_name")),
    "other_mode": ("mode", attrgetter("mode")),
    "other_timer": ("timer", timed_by),
    "other_l2": ("L2 treatment", attrgetter("l2")),
    "other_tf32": ("TF32 setting", attrgetter("tf32")),
    "other_eval": ("eval mode", evaluates),
    "other_tolerance": ("oracle factor", attrgetter("oracle_factor")),
    "other_isolation": ("trust in the solution", lambda row: row.isolation == "none"),
    # The reference runs on torch: another torch moves every ratio.
    "other_torch": ("torch", attrgetter("torch")),
    "other_cuda": ("CUDA", attrgetter("cuda")),
}
"""By code of a difference: what differs, and its value in a row."""


def conditions_of(row: ResultRow) -> tuple[object, ...]:
    """Return all conditions of a row, those of its case and its device included."""
    case = row.problem_sha256, str(sorted(json.loads(row.overrides).items())), row.tensors, row.gpu_uuid, row.driver
    return *case, *(value(row) for _, value in CONDITIONS.values())


def judge_change(
    old: Measurement, new: Measurement, margin: float = MARGIN, *, differences: Sequence[float] | None = None
) -> Verdict:
    """Judge the change of a case: by `differences`, log(t_new / t_old) of each process, where both were timed in it.

    Otherwise the two are independent runs, and their ratios to the reference are compared.
    """
    verdict = _judge_status(old, new) or next(_obstacles(old, new), None)
    if verdict is not None:
        return verdict
    if differences is not None:
        verdict = judge_ratios(differences, margin)
    else:
        allowance = allowance_between(old.row, new.row)
        verdict = judge_runs(old.log_ratios, new.log_ratios, margin, allowance)
    message = f"{new.time} time {verdict.message}" if verdict.low is not None else verdict.message
    return replace(verdict, message=f"{message}; {UNPROVED}" if old.weak or new.weak else message)


def judge_runs(old: Sequence[float], new: Sequence[float], margin: float, allowance: float) -> Verdict:
    """Judge two runs by log(t_candidate / t_reference) of their processes; `allowance` is the devices' share."""
    if not old or not new:
        return _no_verdict("no_timing", "one of the runs has no times")
    if min(len(old), len(new)) < 2:
        return _one_process(float(np.mean(new) - np.mean(old)), margin)
    interval = difference_interval(old, new, 2 * CONFIDENCE - 1)
    spread = math.sqrt(float(np.var(old, ddof=1) + np.var(new, ddof=1)))
    return _judge_interval(interval, margin, allowance, spread=spread, arms=2)


def judge_ratios(log_ratios: Sequence[float], margin: float) -> Verdict:
    """Judge log(t_new / t_old) of each process; old and new were timed side by side in each."""
    if not log_ratios:
        return _no_verdict("no_timing", "old and new were not timed together in any process")
    if len(log_ratios) < 2:
        return _one_process(log_ratios[0], margin)
    interval = ratio_interval(log_ratios, 2 * CONFIDENCE - 1)
    return _judge_interval(interval, margin, 0.0, spread=float(np.std(log_ratios, ddof=1)), arms=1)


def allowance_between(old: ResultRow, new: ResultRow) -> float:
    """Return the share by which two comparable measurements may differ: none on one device under one driver."""
    is_same = bool(old.gpu_uuid) and old.gpu_uuid == new.gpu_uuid and old.driver == new.driver
    return 0.0 if is_same else EQUAL


def _judge_status(old: Measurement, new: Measurement) -> Verdict | None:
    """Judge by statuses alone; None if both passed. A wrong result is wrong on any machine."""
    for side, measurement in (("new", new), ("old", old)):
        if measurement.status in NOT_EVALUATED:
            what = f"the {side} run did not judge it: {_described(measurement)}"
            return _no_verdict("not_evaluated", what)
    passed = old.status == Status.PASSED, new.status == Status.PASSED
    if passed[0] and (passed[1] or new.status is Status.BELOW_LEVEL):
        verdict = judge_level(old.standing, new.standing)
        if verdict is not None or passed[1]:
            return verdict
    if passed == (True, False):
        return Verdict(status=Answer.NEW_FAIL, reason_code=new.status.value, message=_described(new))
    if passed == (False, True):
        message = f"was {_described(old)}"
        return Verdict(status=Answer.NEWLY_FIXED, reason_code=old.status.value, message=message)
    return _no_verdict("both_fail", f"fails as before: {_described(new)}")


def judge_level(old: Standing, new: Standing) -> Verdict | None:
    """Judge a lost level; None if nothing was lost, or only what was accepted."""
    codes = lost(old, new)
    if codes:
        first = foremost(codes)
        more = f", and lacks {listed([code for code in codes if code != first])}" if len(codes) > 1 else ""
        message = f"held the level `{old.counted}`, holds `{new.counted}`: {PROPERTIES[first].title} ({first}){more}"
        return Verdict(status=Answer.NEW_FAIL, reason_code=first, message=message)
    if untried(old, new):
        return _no_verdict("other_level", f"was tried at `task` only, and held `{old.counted}` before")
    if new.required is None or old.required is None or new.required.rank <= old.required.rank:
        return None
    if blocking(new.lacks, new.required, new.accepted):
        what = f"`{new.required}` is required now, and `{old.required}` was before"
        return _no_verdict("other_level", f"lacks nothing new, but {what}")
    return None


def _described(measurement: Measurement) -> str:
    return f"{measurement.status.value}: {measurement.reason}" if measurement.reason else measurement.status.value


def _obstacles(old: Measurement, new: Measurement) -> Iterator[Verdict]:
    """Yield what keeps the times of two measurements from being compared; the first reason decides."""
    was, now = old.row, new.row
    if was.problem_sha256 != now.problem_sha256:
        yield _no_verdict("other_problem", "the problem file has changed")
    if was.tensors and now.tensors and was.tensors != now.tensors:
        yield _no_verdict("other_problem", f"inputs or outputs differ ({was.tensors}; {now.tensors})")
    if was.overrides != now.overrides:
        yield _no_verdict("other_case", "the constants of the case differ")
    left_out = {"other_timer"} if {old.time, new.time} == {Time.WALL} else set()
    if not (was.timer and now.timer):
        left_out = {"other_timer", "other_l2"}
    for code, (what, value) in CONDITIONS.items():
        before, after = value(was), value(now)
        if before != after and code not in left_out:
            yield _no_verdict(code, f"{what} differs ({before}, {after})")
    if old.time is not new.time:
        yield _no_verdict("other_time", f"time differs ({old.time}, {new.time})")
    for side, measurement in (("new", new), ("old", old)):
        if not measurement.log_ratios:
            yield _no_verdict(
                "no_timing", f"the {side} run has no {'wall times' if measurement.time is Time.WALL else 'times'}"
            )
        if measurement.unstable:
            yield _no_verdict(
                "unstable", f"the {side} run was throttled or disturbed in more than a fifth of its pairs"
            )
    if old.throttled is not new.throttled:
        hot, cool = ("new", "old") if new.throttled else ("old", "new")
        yield _no_verdict("unstable", f"the {hot} run was throttled throughout, the {cool} run was not")


def _no_verdict(code: str, message: str) -> Verdict:
    return Verdict(status=Answer.NOT_COMPARABLE, reason_code=code, message=message)


def _one_process(centre: float, margin: float) -> Verdict:
    return Verdict(
        status=Answer.UNCLEAR,
        reason_code="one_process",
        message="one process shows no spread between processes; measure with 5 or more",
        ratio=math.exp(centre),
        margin=margin,
        processes=1,
        processes_to_decide=5,
    )


def _judge_interval(interval: Interval, margin: float, allowance: float, *, spread: float, arms: int) -> Verdict:
    apart, equal = math.log1p(allowance), max(EQUAL, margin) + allowance
    low, high = interval.low - apart, interval.high + apart
    bar, bound = math.log1p(margin), math.log1p(equal)
    needed = None
    if low > bar:
        answer, code, message = Answer.SLOWER, "above_margin", f"above +{_percent(margin)}"
    elif high < -bar:
        answer, code, message = Answer.FASTER, "below_margin", f"below −{_percent(margin)}"
    elif low > -bound and high < bound:
        answer, code, message = Answer.SAME, "within_equivalence", f"within ±{_percent(equal)}"
    else:
        needed = _processes_to_decide(interval, bar + apart, bound - apart, spread, arms)
        answer, code = Answer.UNCLEAR, "spans_margin"
        message = f"neither beyond ±{_percent(margin)} nor within ±{_percent(equal)}"
        enough = f"about {needed} processes would" if needed else f"{MOST_PROCESSES} processes would not"
        message += f"; {enough} decide"
    if allowance:
        message += f"; bounds {_percent(allowance)} wider for another device or driver"
    return Verdict(
        status=answer,
        reason_code=code,
        message=message,
        ratio=math.exp(interval.centre),
        low=math.exp(low),
        high=math.exp(high),
        margin=margin,
        between_devices=allowance,
        processes=interval.processes,
        processes_to_decide=needed,
    )


def _processes_to_decide(interval: Interval, bar: float, bound: float, spread: float, arms: int) -> int | None:
    """Fewest processes whose interval, at this centre and spread, would reach a clear answer."""
    centre = interval.centre
    room = max(centre - bar, -centre - bar, bound - abs(centre))

    def decides(processes: int) -> bool:
        half = t_quantile(CONFIDENCE, arms * (processes - 1)) * spread / math.sqrt(processes)
        return half < room

    low, high = interval.processes, MOST_PROCESSES
    if not decides(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if decides(middle) else (middle, high)
    return high


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"
