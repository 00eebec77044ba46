"""History of a case: runs in their order, steps with what changed, and slow-downs too small to be a step.

The rule is the gate's (docs/adr/0010-verdict-rule.md). A step is seen by both runs before it and both from it on, where
there are two: one run of bad luck is no step. Between two steps the last run is compared with the first.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from kbench.compare import ComparedSide, measured
from kbench.core.model import Status, Time
from kbench.core.verdict import MARGIN, NOT_EVALUATED, Answer, Measurement, Verdict, judge_change
from kbench.storage.results import CaseKey, Run

CREEP = 0.02
"""Largest slow-down against the oldest accepted measurement, in many small steps, as a share."""
STEPS = frozenset({Answer.SLOWER, Answer.FASTER, Answer.NEW_FAIL, Answer.NEWLY_FIXED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One run's measurement of a case."""

    run: str
    started_utc: str
    commit: str
    """The commit that was measured, shortened, with a `+` where files had changes."""
    side: ComparedSide

    @property
    def measurement(self) -> Measurement:
        """The measurement, for verdicts."""
        return self.side.measurement


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryStep:
    """A change between two points, or a break: conditions that cannot be compared."""

    at: int
    """Index of the first point after it."""
    verdict: Verdict
    cause: str
    """The driver, torch or another condition that changed, else the commits."""
    confirmed: bool
    """False if the last run alone shows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """The history of one case on one device model, oldest point first."""

    key: CaseKey
    gpu_name: str
    points: tuple[Point, ...]
    steps: tuple[HistoryStep, ...]
    creep: Verdict | None = None
    """The verdict on slow-downs since the last step, if they exceed CREEP."""

    @property
    def since_step(self) -> tuple[Point, ...]:
        """The points since the last step; the present is compared with the first of them."""
        return self.points[self.steps[-1].at if self.steps else 0 :]


def histories(runs: Iterable[Run], margin: float = MARGIN, time: Time = Time.DEVICE) -> list[Series]:
    """Return the history of every case that was measured; `runs` come oldest first.

    Rows that were only written again, in a later commit or with other columns, are the measurement that they were.
    """
    points: dict[tuple[CaseKey, str], dict[tuple[object, ...], Point]] = {}
    for run in runs:
        rows = run.by_case()
        for key, side in measured(run, time=time).items():
            if side.measurement.status not in NOT_EVALUATED:
                row = rows[key][0]
                commit = row.git_commit[:10] + "+" * row.git_dirty
                one = Point(run=run.name, started_utc=row.started_utc, commit=commit, side=side)
                same = one.started_utc, side.measurement.status, *side.measurement.log_ratios
                points.setdefault((key, row.gpu_name), {})[same] = one
    return [_series(key, gpu_name, [*found.values()], margin) for (key, gpu_name), found in points.items()]


def anchors(runs: Iterable[Run], time: Time = Time.DEVICE) -> Mapping[CaseKey, Point]:
    """Return the oldest measurement of each case that the newest of `runs` is compared with, if it is another one."""
    return {one.key: one.since_step[0] for one in histories(runs, time=time) if len(one.since_step) > 1}


def _series(key: CaseKey, gpu_name: str, points: Sequence[Point], margin: float) -> Series:
    steps: list[HistoryStep] = []
    for at in range(1, len(points)):
        first = steps[-1].at if steps else 0
        before, after = points[max(first, at - 2) : at], points[at : at + 2]
        verdict = judge_change(before[-1].measurement, after[0].measurement, margin)
        same = [
            judge_change(b.measurement, a.measurement, margin).status is verdict.status for b in before for a in after
        ]
        broken = verdict.status is Answer.NOT_COMPARABLE and verdict.reason_code.startswith("other_")
        if broken or (verdict.status in STEPS and all(same)):
            cause = _cause(before[-1], after[0], verdict)
            steps.append(HistoryStep(at=at, verdict=verdict, cause=cause, confirmed=broken or len(after) > 1))
    found = Series(key=key, gpu_name=gpu_name, points=tuple(points), steps=tuple(steps))
    return replace(found, creep=_creep(found, max(CREEP, margin)))


def _cause(before: Point, after: Point, verdict: Verdict) -> str:
    was, now = before.measurement.row, after.measurement.row
    names = [name for name in ("driver", "torch", "cuda") if getattr(was, name) != getattr(now, name)]
    changed = [f"{name} {getattr(was, name) or '?'} → {getattr(now, name) or '?'}" for name in names]
    changed += ["another device"] if was.gpu_uuid != now.gpu_uuid else []
    if not changed and verdict.status is Answer.NOT_COMPARABLE:
        return verdict.message
    return ", ".join(changed) or f"commit {before.commit or '?'} → {after.commit or '?'}"


def _creep(series: Series, margin: float) -> Verdict | None:
    """Compare the last two points with the oldest since the last step: both must be slower by more than the margin."""
    start, *later = series.since_step
    found = [judge_change(start.measurement, one.measurement, margin) for one in later[-2:]]
    is_passing = start.measurement.status is Status.PASSED
    crept = is_passing and found and all(one.status is Answer.SLOWER for one in found)
    return replace(found[-1], reason_code="creep") if crept else None
