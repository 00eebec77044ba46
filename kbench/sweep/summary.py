"""What a sweep came to, from its verdicts alone: counts, fast_p, mean speed-up, rates, where time went."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kbench.core.errors import KbenchError
from kbench.core.model import Environment, Passed, Status
from kbench.core.stats import process_estimate, timings_interval
from kbench.core.student_t import t_quantile
from kbench.sweep.ladder import counts_as_failure
from kbench.sweep.task import Ended, Finished, SweepEvent, Task, TaskVerdict, state_of

FASTER_THAN = (0.0, 1.0, 1.5, 2.0)
"""Of fast_p: the share of solutions that are right, and faster than so many times the reference."""
Z_95 = 1.959963984540054
SLOWEST = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A share of a count, with the 95 % band of Wilson's."""

    hits: int
    of: int
    low: float
    high: float

    @property
    def share(self) -> float:
        """The share itself."""
        return self.hits / self.of


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean:
    """A geometric mean of speed-ups, with the 95 % interval over solutions (t, of the logarithms)."""

    value: float
    low: float | None
    high: float | None
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Slow:
    """One of the verdicts that took longest."""

    name: str
    elapsed_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepSummary:
    """What is said of a sweep. Times are of this invocation; verdicts of the journal count in all else."""

    run: str
    tasks: int
    done: int
    resumed: int
    statuses: Mapping[str, int]
    """How often each came, most frequent first."""
    levels: Mapping[str, int]
    fast: Mapping[float, Share] = field(default_factory=dict)
    speedup: Mean | None = None
    held: int = 0
    """Speed-ups that the judge's clock confirms in every process."""
    failures: int = 0
    """Verdicts against a solution."""
    not_judged: int = 0
    """Those that say nothing of a solution: kbench, the machine or the problem is at fault, or it was skipped."""
    retried: int = 0
    elapsed_s: float = 0.0
    units_per_hour: float | None = None
    stage_s: Mapping[str, float] = field(default_factory=dict)
    """Seconds of all lanes and builders together."""
    slowest: tuple[Slow, ...] = ()
    environment: Environment | None = None
    csv_path: str | None = None
    left: int = 0
    reason: str = ""
    """Why it ended before all was done."""


def speedup_of(verdict: TaskVerdict) -> float | None:
    """Return the speed-up of a verdict over all its processes; None without a time."""
    outcome = state_of(verdict.task, verdict.results).outcome
    if not isinstance(outcome, Passed) or not outcome.timings:
        return None
    interval = timings_interval(outcome.timings)
    if interval is not None:
        return interval.as_speedup().centre
    return math.exp(-process_estimate(outcome.timings[0]))


def wilson(hits: int, of: int) -> Share:
    """Return a share with Wilson's 95 % band, which holds for small counts and for 0 and 1 too."""
    share, z2 = hits / of, Z_95**2 / of
    middle = (share + z2 / 2) / (1 + z2)
    half = Z_95 / (1 + z2) * math.sqrt(share * (1 - share) / of + z2 / (4 * of))
    return Share(hits=hits, of=of, low=max(0.0, middle - half), high=min(1.0, middle + half))


def mean_speedup(speedups: Sequence[float]) -> Mean | None:
    """Return the geometric mean of speed-ups; two give an interval."""
    if not speedups:
        return None
    logs = [math.log(value) for value in speedups]
    mean = math.fsum(logs) / len(logs)
    if len(logs) < 2:
        return Mean(value=math.exp(mean), low=None, high=None, count=len(logs))
    variance = math.fsum((value - mean) ** 2 for value in logs) / (len(logs) - 1)
    half = t_quantile(0.975, len(logs) - 1) * math.sqrt(variance / len(logs))
    return Mean(value=math.exp(mean), low=math.exp(mean - half), high=math.exp(mean + half), count=len(logs))


def summarise(
    run: str,
    verdicts: Sequence[TaskVerdict],
    *,
    tasks: int,
    elapsed_s: float,
    took_s: Mapping[str, float],
    csv_path: str | None = None,
    reason: str = "",
) -> SweepSummary:
    """Say what a sweep came to; `took_s` has the wall seconds of each verdict of this invocation, by its key."""
    statuses = Counter(verdict.status.value for verdict in verdicts)
    levels = Counter(verdict.last.outcome.level or "none" for verdict in verdicts if verdict.last.is_verdict)
    judged = [verdict for verdict in verdicts if verdict.last.is_verdict]
    speedups = {verdict.task.key: found for verdict in judged if (found := speedup_of(verdict)) is not None}
    fresh = [verdict for verdict in verdicts if not verdict.resumed]
    stage_s: dict[str, float] = {}
    for verdict in fresh:
        for stage, spent_s in verdict.stage_s.items():
            stage_s[stage] = stage_s.get(stage, 0.0) + spent_s
    slowest = sorted(fresh, key=lambda verdict: -took_s.get(verdict.task.key, 0.0))[:SLOWEST]
    units = sum(len(verdict.results) for verdict in fresh)
    return SweepSummary(
        run=run,
        tasks=tasks,
        done=len(verdicts),
        resumed=sum(verdict.resumed for verdict in verdicts),
        statuses=dict(statuses.most_common()),
        levels=dict(levels.most_common()),
        fast=_fast(judged, speedups),
        speedup=mean_speedup(list(speedups.values())),
        held=sum(_is_held(verdict) for verdict in judged),
        failures=sum(counts_as_failure(verdict.last) for verdict in verdicts),
        not_judged=len(verdicts) - len(judged),
        retried=sum(result.attempts > 1 for verdict in fresh for result in verdict.results),
        elapsed_s=elapsed_s,
        units_per_hour=3600 * units / elapsed_s if units and elapsed_s > 0 else None,
        stage_s=stage_s,
        slowest=tuple(Slow(name=v.task.name, elapsed_s=took_s.get(v.task.key, 0.0)) for v in slowest),
        environment=next((v.last.environment for v in verdicts if v.last.environment is not None), None),
        csv_path=csv_path,
        left=tasks - len(verdicts),
        reason=reason,
    )


def _fast(judged: Sequence[TaskVerdict], speedups: Mapping[str, float]) -> dict[float, Share]:
    """Return fast_p for the thresholds; only for 0, where nothing was timed. One that did not pass is not fast."""
    if not judged:
        return {}
    passed = sum(verdict.status is Status.PASSED for verdict in judged)
    shares = {FASTER_THAN[0]: wilson(passed, len(judged))}
    if speedups:
        for threshold in FASTER_THAN[1:]:
            shares[threshold] = wilson(sum(value > threshold for value in speedups.values()), len(judged))
    return shares


def _is_held(verdict: TaskVerdict) -> bool:
    outcomes = [result.outcome for result in verdict.results]
    timings = [timing for outcome in outcomes if isinstance(outcome, Passed) for timing in outcome.timings]
    return bool(timings) and all(timing.attestation == "held" for timing in timings)


class Collector:
    """What a sweep has told so far."""

    def __init__(self, run: str, tasks: Sequence[Task], csv_path: Path):
        self._run = run
        self._csv_path = csv_path
        self._order = {task.key: place for place, task in enumerate(tasks)}
        self._verdicts: dict[str, TaskVerdict] = {}
        self._took_s: dict[str, float] = {}
        self.ended: Ended | None = None
        self.error: KbenchError | None = None

    def take(self, event: SweepEvent) -> None:
        """Keep what counts."""
        if isinstance(event, Finished):
            self._verdicts[event.verdict.task.key] = event.verdict
            self._took_s[event.verdict.task.key] = event.elapsed_s
        elif isinstance(event, Ended):
            self.ended = event

    @property
    def sorted(self) -> list[TaskVerdict]:
        """All verdicts in the order of the tasks."""
        return sorted(self._verdicts.values(), key=lambda verdict: self._order[verdict.task.key])

    def summary(self) -> SweepSummary:
        """Say what it came to, also of a sweep that broke off."""
        ended = self.ended
        interrupted = "interrupted" if self.error is None else self.error.message
        written = str(self._csv_path) if self._csv_path.exists() else None
        return summarise(
            self._run,
            self.sorted,
            tasks=len(self._order),
            elapsed_s=ended.elapsed_s if ended is not None else 0.0,
            took_s=self._took_s,
            csv_path=ended.csv_path if ended is not None else written,
            reason=ended.reason if ended is not None else interrupted,
        )
