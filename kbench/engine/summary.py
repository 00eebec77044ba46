"""The summary of a sweep, from its verdicts: counts, fast_p, mean speed-up, rates, time by stage."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kbench.core.budget import advice
from kbench.core.events import Judged
from kbench.core.model import Environment, Finding, FindingKind, Outcome, Passed, Status
from kbench.core.stats import process_estimate, ratio_interval, timings_interval, weighted_mean
from kbench.core.timed import FORWARD, timed_of
from kbench.engine.rows import rows_of
from kbench.engine.task import TaskVerdict

FASTER_THAN = (0.0, 1.0, 1.5, 2.0)
"""Thresholds p of fast_p: the share of solutions that are right and faster than p times the reference."""
TRIVIAL = "trivial_passes"
"""Code of the note that verification leaves, and of the flag in rows."""
Z_95 = 1.959963984540054


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A share of a count, with Wilson's 95 % band."""

    hits: float
    of: float
    low: float
    high: float
    weighted: float | None = None
    """The share by the weights of the cases, where they differ."""

    @property
    def share(self) -> float:
        """The share itself."""
        return self.hits / self.of if self.weighted is None else self.weighted


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean:
    """A geometric mean of speed-ups, with the 95 % interval over solutions (t, of the logarithms)."""

    value: float
    low: float | None
    high: float | None
    count: int
    weighted: bool = False
    """True if cases have weights: then there is no interval."""

    @property
    def name(self) -> str:
        """Name of the mean, which names weights if there are any."""
        return "weighted geometric mean" if self.weighted else "geometric mean"


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """The part of a verdict that fast_p and the mean speed-up count."""

    passed: bool
    speedup: float | None = None
    """None if it did not pass, was not timed, or the judge's clock does not confirm its time."""
    trivial: bool = False
    """Zeros, one value or the answer to other inputs pass the task as well: passing it proves nothing."""
    weight: float = 1.0
    """Number of times that the case counts in means over several cases."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepSummary:
    """Figures of a sweep. Seconds are of this command; everything else includes verdicts of the journal."""

    run: str
    tasks: int
    done: int
    resumed: int
    statuses: Mapping[str, int]
    """Number of verdicts by status, most frequent first."""
    levels: Mapping[str, int]
    fast: Mapping[float, Share] = field(default_factory=dict)
    speedup: Mean | None = None
    trivial: int = 0
    """Number of solutions that pass a task trivially; fast_p and the mean leave them out."""
    held: int = 0
    """Speed-ups that the judge's clock confirms in every process."""
    not_judged: int = 0
    """Number of results that are not verdicts: a fault of kbench, the machine or the problem, or a skipped case."""
    retried: int = 0
    elapsed_s: float = 0.0
    units_per_hour: float | None = None
    """Rate of all units of the journal, over the time that its commands took."""
    stage_s: Mapping[str, float] = field(default_factory=dict)
    """Sum of the seconds of all lanes and builders, longest first."""
    environment: Environment | None = None
    csv_path: str | None = None
    left: int = 0
    reason: str = ""


def judged_of(verdict: TaskVerdict, run_id: str = "", started_utc: str = "") -> Judged:
    """Return a verdict as `run` reports it, with what more time would bring if the budget ended it."""
    return Judged(
        solution=verdict.task.solution.name,
        case=verdict.task.case.name,
        outcome=_with_advice(verdict),
        rows=tuple(row for row, _ in rows_of(verdict, run_id, started_utc)),
        stage_s=dict(verdict.stage_s),
        weight=verdict.task.case.weight,
    )


def _with_advice(verdict: TaskVerdict) -> Outcome:
    """Return the outcome, with a finding on what more time would bring if the budget ended the measurement."""
    outcome, options = verdict.outcome, verdict.task.options
    if not isinstance(outcome, Passed) or not outcome.timings or verdict.wants_more or options.budget_s is None:
        return outcome
    interval, done = timings_interval(outcome.timings), len(outcome.timings)
    if interval is None or done >= options.max_processes or interval.half_width <= math.log1p(options.precision):
        return outcome
    message = advice(interval.half_width, options.precision, verdict.stage_s["time"], done)
    found = Finding(code="imprecise", kind=FindingKind.TIMING, message=message)
    return replace(outcome, findings=(*outcome.findings, found))


def speedup_of(verdict: TaskVerdict) -> float | None:
    """Return the speed-up of a verdict over all its processes; None without a time."""
    outcome = verdict.outcome
    if not isinstance(outcome, Passed) or not outcome.timings:
        return None
    interval = timings_interval(outcome.timings)
    if interval is not None:
        return interval.as_speedup().centre
    return math.exp(-process_estimate(outcome.timings[0]))


def wilson(hits: float, of: float, weights: Sequence[float] = (), hit_weights: Sequence[float] = ()) -> Share:
    """Return a share with Wilson's 95 % band, which holds for small counts and for 0 and 1 too.

    Where `weights` differ, the share is that of the weights, and the band that of as many equal ones as they amount to.
    """
    if len(set(weights)) > 1:
        share, alike = sum(hit_weights) / sum(weights), sum(weights) ** 2 / sum(weight**2 for weight in weights)
        band = wilson(share * alike, alike)
        return Share(hits=hits, of=of, low=band.low, high=band.high, weighted=share)
    share, z2 = hits / of, Z_95**2 / of
    middle = (share + z2 / 2) / (1 + z2)
    half = Z_95 / (1 + z2) * math.sqrt(share * (1 - share) / of + z2 / (4 * of))
    return Share(hits=hits, of=of, low=max(0.0, middle - half), high=min(1.0, middle + half))


def fast_p(scores: Sequence[Score]) -> dict[float, Share]:
    """Return fast_p by threshold (KernelBench, arXiv 2502.10517) of tasks that are not trivial; untimed, for p = 0."""
    scores = [one for one in scores if not one.trivial]
    if not scores:
        return {}
    weights = [one.weight for one in scores]

    def shared(right: Sequence[Score]) -> Share:
        return wilson(len(right), len(scores), weights, [one.weight for one in right])

    shares = {FASTER_THAN[0]: shared([one for one in scores if one.passed])}
    if any(one.speedup is not None for one in scores):
        for threshold in FASTER_THAN[1:]:
            shares[threshold] = shared([one for one in scores if (one.speedup or 0.0) > threshold])
    return shares


def mean_speedup(scores: Sequence[Score]) -> Mean | None:
    """Return the geometric mean of the speed-ups of tasks that are not trivial; two give an interval."""
    counted = [one for one in scores if one.speedup is not None and not one.trivial]
    speedups = [one.speedup for one in counted if one.speedup is not None]
    weights = [one.weight for one in counted]
    if not speedups:
        return None
    if len(set(weights)) > 1:
        value = weighted_mean(speedups, weights)
        return Mean(value=value, low=None, high=None, count=len(speedups), weighted=True)
    if len(speedups) == 1:
        return Mean(value=speedups[0], low=None, high=None, count=1)
    found = ratio_interval([-math.log(value) for value in speedups]).as_speedup()
    return Mean(value=found.centre, low=found.low, high=found.high, count=len(speedups))


def summarise(run: str, verdicts: Sequence[TaskVerdict], *, tasks: int, **fields: Any) -> SweepSummary:
    """Return the summary, with further `fields`."""
    statuses = Counter(verdict.status.value for verdict in verdicts)
    judged = [verdict for verdict in verdicts if verdict.last.is_verdict]
    levels = Counter(verdict.outcome.level or "none" for verdict in judged)
    scores = [_score(verdict) for verdict in judged if timed_of(verdict.task.case.name) == FORWARD]
    fresh = [verdict for verdict in verdicts if not verdict.resumed]
    stage_s: Counter[str] = Counter()
    for verdict in fresh:
        stage_s.update(verdict.stage_s)
    return SweepSummary(
        run=run,
        tasks=tasks,
        done=len(verdicts),
        resumed=sum(verdict.resumed for verdict in verdicts),
        statuses=dict(statuses.most_common()),
        levels=dict(levels.most_common()),
        fast=fast_p(scores),
        speedup=mean_speedup(scores),
        trivial=sum(one.trivial for one in scores),
        held=sum(verdict.is_held for verdict in judged),
        not_judged=len(verdicts) - len(judged),
        retried=sum(result.attempts > 1 for verdict in fresh for result in verdict.results),
        stage_s=dict(stage_s.most_common()),
        environment=next((v.last.environment for v in verdicts if v.last.environment is not None), None),
        left=tasks - len(verdicts),
        **fields,
    )


def _score(verdict: TaskVerdict) -> Score:
    passed = [result.outcome for result in verdict.results if isinstance(result.outcome, Passed)]
    trivial = any(finding.code == TRIVIAL for outcome in passed for finding in outcome.findings)
    passes, weight = verdict.status is Status.PASSED, verdict.task.case.weight
    speedup = speedup_of(verdict) if verdict.is_held else None
    return Score(passed=passes, speedup=speedup, trivial=trivial, weight=weight)
