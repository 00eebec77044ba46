"""`compare`: saved runs side by side, or the solutions of one run, with intervals and verdicts.

Everything but wall times is computed from the raw samples; summary columns are not believed. Runs are compared by their
ratios to the reference, in which clocks and heat of a session cancel; solutions of one run, process by process.
"""

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from kbench.core import stats
from kbench.core.errors import NothingSelectedError, ResultsError, UsageError, did_you_mean
from kbench.core.levels import UNKNOWN, Level, Standing
from kbench.core.model import ResultRow, Status, Time, Timing
from kbench.core.stats import Interval
from kbench.core.timed import FORWARD, mean_name, timed_of
from kbench.core.verdict import MARGIN, Answer, Measurement, Verdict, conditions_of, judge_change
from kbench.storage import details
from kbench.storage.results import CaseKey, Run, case_key

PLAIN_LOOPS = "wall"
"""The timer of calls that wait for the device: what it times is wall time."""
MOST_MARKED = 0.2
"""Share of marked pairs above which a measurement is unstable, and no verdict rests on it, unless it is steady."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedSide:
    """One (problem, solution, case) of a run, recomputed from its samples."""

    place: tuple[str, str, str]
    """Paths of problem and solution, and the class or function judged; empty as in the row."""
    measurement: Measurement
    timings: tuple[Timing, ...]
    time_ns: float | None
    """Median over processes of their medians, as every report has it."""
    reference_ns: float | None
    speedup: Interval | None
    """t_reference / t_candidate at 95 %."""
    limit_ns: float | None
    percent_of_limit: float | None

    @property
    def shown_half_width_ns(self) -> float | None:
        """Half-width of the time that follows from the interval of its speed-up, as in `show`; None for a weak time."""
        ratio = self.speedup
        if self.time_ns is None or ratio is None or self.measurement.weak or self.measurement.time is Time.WALL:
            return None
        return self.time_ns * ratio.half_width / ratio.centre

    @property
    def passed(self) -> bool:
        """True if every check held."""
        return self.measurement.status is Status.PASSED


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedCase:
    """One line of a comparison. Between solutions `old` is the base, whose own line has no verdict."""

    problem: str
    solution: str
    case: str
    old: ComparedSide | None
    new: ComparedSide | None
    verdict: Verdict | None
    label: str
    """Name of the new side: the run or the solution."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All lines of a comparison, and what they amount to."""

    by: str
    """`run` or `solution`."""
    base: str
    labels: tuple[str, ...]
    cases: tuple[ComparedCase, ...]
    confidence: float
    time: Time = Time.DEVICE
    weights: Mapping[str, float] = field(default_factory=dict)
    """Weight of each case that has one: how many times it counts."""

    @property
    def mean_name(self) -> str:
        """Name of the mean over its cases, which names weights if there are any."""
        return mean_name([case.case for case in self.cases], [self.weights.get(one.case, 1.0) for one in self.cases])

    @property
    def counts(self) -> dict[Answer, int]:
        """Number of cases by answer."""
        return dict(Counter(case.verdict.status for case in self.cases if case.verdict is not None))

    def geometric_mean(self, label: str) -> float | None:
        """Geometric mean of t_new / t_old over the cases of one label; None if all are unclear, which is no result.

        It counts cases of forward only.
        """
        own = [one for one in self.cases if one.label == label and timed_of(one.case) == FORWARD]
        judged = [(one, one.verdict) for one in own if one.verdict is not None]
        found = [(one.case, verdict) for one, verdict in judged if verdict.ratio is not None]
        if all(verdict.status is Answer.UNCLEAR for _, verdict in found):
            return None
        weights = [self.weights.get(case, 1.0) for case, _ in found]
        return stats.weighted_mean([verdict.ratio or math.nan for _, verdict in found], weights)


def compare(
    runs: Sequence[Run],
    *,
    base: str | None = None,
    cases: Sequence[str] = (),
    margin: float = MARGIN,
    time: Time = Time.DEVICE,
) -> Comparison:
    """Compare several runs with the first of them, or the solutions of one run with `base` (its first solution).

    `cases` are globs. Measurements on different GPUs get a ratio, but no verdict. Raises UsageError,
    NothingSelectedError for no case, and ResultsError for rows of a case that were measured differently.
    """
    if not runs:
        raise UsageError("there is no run to compare", "`kbench compare RUN`, or `kbench compare OLD NEW`")
    if len(runs) == 1:
        comparison = _compare_solutions(runs[0], base, cases, margin, time)
    else:
        comparison = _compare_runs(runs, cases, margin, time)
    if not comparison.cases:
        raise NothingSelectedError("no case to compare", hint="`kbench show RUN` lists a run's cases")
    known = [details.read(run.path, run.rows[0].started_utc) for run in runs if run.rows]
    return replace(comparison, weights={name: w for one in known if one for name, w in one.weights.items()})


def measured(run: Run, cases: Sequence[str] = (), time: Time = Time.DEVICE) -> dict[CaseKey, ComparedSide]:
    """Recompute every (problem, solution, case) of a run from its samples, or its rows' wall times, in order."""
    measure = {Time.DEVICE: _measure, Time.WALL: _measure_wall}[time]
    return {key: measure(run, rows) for key, rows in run.by_case(cases).items()}


def measurements(run: Run, time: Time = Time.DEVICE) -> dict[CaseKey, Measurement]:
    """Give what the verdict rule needs of every (problem, solution, case) of a run."""
    return {key: found.measurement for key, found in measured(run, time=time).items()}


def process_differences(old: Measurement, new: Measurement) -> tuple[float, ...]:
    """Log(t_new / t_old) of the processes that timed both, each next to the reference."""
    before = dict(zip(old.processes, old.log_ratios, strict=True))
    after = dict(zip(new.processes, new.log_ratios, strict=True))
    return tuple(after[process] - before[process] for process in after if process in before)


def _measure(run: Run, rows: Sequence[ResultRow]) -> ComparedSide:
    first = rows[0]
    # A row that failed may lack what its failure came before (timer, L2, oracle factor).
    measured_alike = [row for row in rows if row.status == Status.PASSED] or [first]
    if len({conditions_of(row) for row in measured_alike}) > 1:
        raise ResultsError(
            f"{run.path} mixes rows of {'/'.join(case_key(first))} that were measured differently", "measure again"
        )
    deciding = next((row for row in rows if row.status != Status.PASSED), first)
    timings = run.timings(rows) if deciding.status == Status.PASSED else ()
    usable = [timing for timing in timings if stats.pair_log_ratios(timing.samples)]
    flags = tuple(dict.fromkeys(flag for row in rows for flag in row.flags.split()))
    marked = statistics.fmean([stats.marked_share(stats.pairs(one.samples)) for one in timings] or [0.0])
    time_ns = _median_over_processes(timings, "candidate")
    limit_ns = None if first.limit_ns is None else float(first.limit_ns)
    interval = stats.timings_interval(usable)
    return ComparedSide(
        place=(first.problem_path, first.solution_path, first.entry),
        measurement=Measurement(
            status=Status(deciding.status),
            reason=deciding.reason,
            standing=Standing(
                level=Level(deciding.level) if deciding.level else None,
                lacks=tuple(deciding.lacks.split()),
                required=Level(deciding.required_level) if deciding.required_level else None,
                accepted=tuple(deciding.accepted.split()),
            ),
            row=measured_alike[0],
            processes=tuple(timing.samples[0].process for timing in usable),
            log_ratios=tuple(stats.process_estimate(timing) for timing in usable),
            weak=any(row.attestation == "weak" for row in rows),
            unstable="unstable" in flags or (MOST_MARKED < marked < stats.STEADY_SHARE),
            throttled=marked >= stats.STEADY_SHARE,
            time=Time.WALL if first.timer == PLAIN_LOOPS else Time.DEVICE,
        ),
        timings=timings,
        time_ns=time_ns,
        reference_ns=_median_over_processes(timings, "reference"),
        speedup=interval.as_speedup() if interval else None,
        limit_ns=limit_ns,
        percent_of_limit=100 * limit_ns / time_ns if limit_ns and time_ns else None,
    )


def _median_over_processes(timings: Sequence[Timing], arm: str) -> float | None:
    medians = [np.median(stats.arm_times_ns(timing.samples, arm)) for timing in timings]
    return float(np.median(medians)) if medians else None


def _measure_wall(run: Run, rows: Sequence[ResultRow]) -> ComparedSide:
    """Use wall times instead of device times; there is no limit, because it is for device times."""
    found = _measure(run, rows)
    loops = {row.process: (row.wall_ns, row.ref_wall_ns) for row in rows} if found.passed else {}
    walls = {process: (mine, theirs) for process, (mine, theirs) in loops.items() if mine and theirs}
    ratios = tuple(math.log(mine / theirs) for mine, theirs in walls.values())
    device = found.measurement
    return replace(
        found,
        measurement=replace(device, time=Time.WALL, processes=tuple(walls), log_ratios=ratios),
        time_ns=float(np.median([mine for mine, _ in walls.values()])) if walls else None,
        reference_ns=float(np.median([theirs for _, theirs in walls.values()])) if walls else None,
        speedup=stats.ratio_interval(ratios).as_speedup() if len(ratios) > 1 else None,
        limit_ns=None,
        percent_of_limit=None,
    )


def _compare_solutions(run: Run, base: str | None, cases: Sequence[str], margin: float, time: Time) -> Comparison:
    found = measured(run, cases, time)
    solutions = tuple(dict.fromkeys(row.solution for row in run.rows))
    base = base or solutions[0]
    if base not in solutions:
        hint = did_you_mean(base, solutions, listing=f"it has {', '.join(solutions)}")
        raise UsageError(f"{run.name} has no solution `{base}`", hint)
    lines = []
    for key, new in found.items():
        line = _line(key, found.get(key._replace(solution=base)), new, key.solution)
        lines.append(line if key.solution == base else _judged(line, margin, paired=True))
    return Comparison(
        by="solution", base=base, labels=solutions, cases=tuple(lines), confidence=stats.CONFIDENCE, time=time
    )


def _compare_runs(runs: Sequence[Run], cases: Sequence[str], margin: float, time: Time) -> Comparison:
    base = measured(runs[0], cases, time)
    shared = Counter(run.name for run in runs)  # runs of one name get their place in the list
    labels = tuple(f"{r.name} ({n})" if shared[r.name] > 1 else r.name for n, r in enumerate(runs, start=1))
    lines = []
    for label, run in zip(labels[1:], runs[1:], strict=True):
        others = measured(run, cases, time)
        unjudged = [_line(key, base.get(key), others.get(key), label) for key in dict.fromkeys((*base, *others))]
        lines += [_judged(line, margin, paired=False) for line in unjudged]
    return Comparison(
        by="run", base=labels[0], labels=labels[1:], cases=tuple(lines), confidence=stats.CONFIDENCE, time=time
    )


def _line(key: CaseKey, old: ComparedSide | None, new: ComparedSide | None, label: str) -> ComparedCase:
    return ComparedCase(**key._asdict(), old=old, new=new, verdict=None, label=label)


def _judged(line: ComparedCase, margin: float, *, paired: bool) -> ComparedCase:
    if line.old is None or line.new is None:
        lacking, has = ("old", "new") if line.old is None else ("new", "old")
        code, message = f"not_in_{lacking}", f"measured on the {has} side only"
        return replace(line, verdict=Verdict(status=Answer.NOT_COMPARABLE, reason_code=code, message=message))
    old, new = line.old.measurement, line.new.measurement
    differences = process_differences(old, new) if paired else None
    if paired:
        old = replace(old, standing=UNKNOWN)  # the level of another solution does not apply to this one
    verdict = judge_change(old, new, margin, differences=differences)
    if verdict.reason_code == "other_gpu" and differences is None and old.log_ratios and new.log_ratios:
        # A ratio to look at, which no verdict stands on.
        verdict = replace(verdict, ratio=math.exp(np.mean(new.log_ratios) - np.mean(old.log_ratios)))
    return replace(line, verdict=verdict)
