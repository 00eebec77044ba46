"""The summary of a run: its events folded into one record for all renderers."""

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kbench.core.diagnosis import Diagnosis
from kbench.core.errors import ExitCode, KbenchError
from kbench.core.events import Judged
from kbench.core.levels import Level, level_in_words
from kbench.core.model import (
    Correctness,
    Environment,
    Failed,
    Finding,
    Outcome,
    Passed,
    ResultRow,
    Status,
    Timing,
)
from kbench.core.stats import one_process_half_width, pair_log_ratios, weighted_mean
from kbench.core.timed import FORWARD, mean_name, timed_of
from kbench.report import units
from kbench.storage.results import CaseKey, constants_of

HOST_BOUND = "host_bound"
"""Not a warning: the wall time is printed beside the device time."""
ONE_PROCESS = "one_process"
"""Not a warning: the heading says it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseSummary:
    """One solution on one case, over all its processes. Times are medians over processes of medians."""

    solution: str
    case: str
    status: Status
    reason: str = ""
    log: str = ""
    """The tail of what the solution printed."""
    constants: str = ""
    """The problem's constants with the case and `--set` applied: `features=37, rows=7`."""
    diagnosis: Diagnosis | None = None
    """Why values are wrong; the reason begins with its sentence."""
    findings: tuple[Finding, ...] = ()
    flags: tuple[str, ...] = ()
    correctness: Correctness | None = None
    rows: tuple[ResultRow, ...] = ()
    timings: tuple[Timing, ...] = ()
    """One for each process that timed it, with its raw samples."""
    stage_s: dict[str, float] = field(default_factory=dict)
    time_ns: float | None = None
    reference_ns: float | None = None
    speedup: float | None = None
    speedup_low: float | None = None
    speedup_high: float | None = None
    percent_of_limit: float | None = None
    own_share: float | None = None
    """Share of a call's time in the solution's own kernels, from 0 to 1; None if not known."""
    level: Level | None = None
    """The highest level that it holds; None if it does not do the task, or if the file has no level."""
    lacks: tuple[str, ...] = ()
    """Codes of the properties that keep it from higher ones."""
    required_level: str = ""
    accepted: tuple[str, ...] = ()
    wall_ns: float | None = None
    """Time per call of a plain loop, the host's work included."""
    ref_wall_ns: float | None = None
    attestation: str = "none"
    """`weak` if that of any process is."""
    weight: float = 1.0
    """Number of times that the case counts in means over several cases."""
    noise: float | None = None
    """Half the width of the range of a single process's speed-up, as a share; it limits the printed digits."""

    @property
    def problem(self) -> str:
        """Name of the problem; empty without rows."""
        return self.rows[0].problem if self.rows else ""

    @property
    def key(self) -> CaseKey:
        """Problem, solution and case."""
        return CaseKey(self.problem, self.solution, self.case)

    @property
    def work(self) -> int:
        """Bytes or operations of a call, whichever bounds it; 0 if not known."""
        row = self.rows[0] if self.rows else None
        if row is None or not row.limit_rate:
            return 0
        return (row.dram_bytes if row.limit_rate == "memory" else row.flops) or 0

    @property
    def passed(self) -> bool:
        """True if the solution held every check of this case."""
        return self.status is Status.PASSED

    @property
    def shown_level(self) -> str:
        """The level, and what it lacks: `module; not: channels_last, alignment`."""
        return level_in_words(self.level, self.lacks, self.accepted)

    @property
    def shown_half_width_ns(self) -> float | None:
        """Half-width of the time that follows from the speed-up's; None for a weak time, whose spread is a claim."""
        low, high = self.speedup_low, self.speedup_high
        if self.weak or self.time_ns is None or not self.speedup or low is None or high is None:
            return None
        return self.time_ns * (high - low) / 2 / self.speedup

    @property
    def weak(self) -> bool:
        """True if the judge's clock cannot confirm the time of some process."""
        return self.attestation == "weak"

    @property
    def alone(self) -> bool:
        """True if it was timed in one process, which has no interval."""
        return ONE_PROCESS in self.flags

    @property
    def shown_speedup(self) -> str:
        """The speed-up with confirmed digits only."""
        low, high = self.bounds
        return units.speedup(self.speedup, low, high, alone=self.alone, weak=self.weak)

    @property
    def shown_interval(self) -> str:
        """Its interval, with confirmed digits only."""
        return units.interval(self.speedup_low, self.speedup_high, weak=self.weak)

    @property
    def bounds(self) -> tuple[float | None, float | None]:
        """The ends of the speed-up's interval; for one process from its noise, used for the number of digits only."""
        if not self.alone or self.speedup is None or self.noise is None:
            return self.speedup_low, self.speedup_high
        return self.speedup * (1 - self.noise), self.speedup * (1 + self.noise)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """A run, complete or not; `error` says why it ended early."""

    problem: str
    cases: tuple[CaseSummary, ...]
    environment: Environment | None = None
    csv_path: str | None = None
    reference_s: dict[str, dict[str, float]] = field(default_factory=dict)
    """Seconds of the judge's own side by case and stage, over all processes."""
    elapsed_s: float | None = None
    command: str = ""
    baseline: str = ""
    """The solution that the others are compared with in the table of cases and solutions; empty: the reference."""
    unjudged: int = 0
    """Number of the problem's cases that were left out because none was named."""
    error: KbenchError | None = None

    @property
    def problems(self) -> tuple[str, ...]:
        """The names of its problems, one but in a sweep."""
        return tuple(dict.fromkeys(case.problem for case in self.cases if case.problem))

    @property
    def rows(self) -> tuple[ResultRow, ...]:
        """The rows of all cases."""
        return tuple(row for case in self.cases for row in case.rows)

    @property
    def timed(self) -> tuple[CaseSummary, ...]:
        """Cases that have a time; none that failed in a later process."""
        return tuple(case for case in self.cases if case.time_ns is not None)

    @property
    def names(self) -> tuple[str, ...]:
        """Name of each case's solution, after its problem where there are several."""
        several = len(self.problems) > 1
        return tuple(f"{one.problem} · {one.solution}" if several else one.solution for one in self.cases)

    @property
    def failing(self) -> tuple[CaseSummary, ...]:
        """Cases that failed; neither passed nor skipped."""
        return tuple(case for case in self.cases if case.status not in {Status.PASSED, Status.SKIPPED})

    @property
    def status(self) -> str:
        """`error`, `interrupted`, the status of the first failing case, `skipped`, or `passed`."""
        if self.error is not None:
            return "interrupted" if self.error.exit_code is ExitCode.INTERRUPTED else "error"
        if self.failing:
            return self.failing[0].status.value
        return (Status.PASSED if any(case.passed for case in self.cases) else Status.SKIPPED).value

    @property
    def reason(self) -> str:
        """Why the status is not `passed`; empty if it is."""
        if self.error is not None:
            return self.error.message
        found = [(case, name) for case, name in zip(self.cases, self.names, strict=True) if case.status == self.status]
        if not found or found[0][0].passed:
            return ""
        (case, name), *_ = found
        return f"{name}, case {case.case}: {case.reason}"

    @property
    def solutions(self) -> tuple[str, ...]:
        """Names of the judged solutions in order."""
        return tuple(dict.fromkeys(case.solution for case in self.cases))

    @property
    def speedup(self) -> float | None:
        """Geometric mean over the cases of a run's one solution (`speedup_of`)."""
        return self.speedup_of(self.solutions[0]) if len(self.solutions) == 1 else None

    @property
    def constants(self) -> dict[str, str]:
        """The constants of each case that changes any."""
        return {case.case: case.constants for case in self.cases if case.constants}

    def counted(self, solution: str, timed: str = FORWARD) -> list[CaseSummary]:
        """Return the cases of a solution that a mean counts: those that time these passes, unless skipped."""
        own = [case for case in self.cases if case.solution == solution and case.status is not Status.SKIPPED]
        return [case for case in own if timed_of(case.case) == timed]

    def speedup_of(self, solution: str, timed: str = FORWARD) -> float | None:
        """Geometric mean of a solution's speed-ups; None if it failed any case: that is no speed-up."""
        cases = self.counted(solution, timed)
        values = [case.speedup for case in cases if case.passed and case.speedup is not None]
        weights = [case.weight for case in cases]
        return weighted_mean(values, weights) if values and len(values) == len(cases) else None

    @property
    def mean_name(self) -> str:
        """Name of the mean over its cases, which names weights if there are any."""
        return mean_name([case.case for case in self.cases], [case.weight for case in self.cases])

    def shown_speedup_of(self, solution: str, timed: str = FORWARD) -> str:
        """Write the mean with the confirmed digits of its least certain case."""
        mean = self.speedup_of(solution, timed)
        cases = [case for case in self.counted(solution, timed) if case.passed]
        noises = [case.noise for case in cases if case.alone]
        known = [noise for noise in noises if noise is not None]
        low = high = None
        if mean and known and len(known) == len(noises):
            low, high = mean * (1 - max(known)), mean * (1 + max(known))
        return units.speedup(mean, low, high, alone=bool(noises), weak=any(case.weak for case in cases))


def constants_in(overrides: str) -> str:
    """Write the constants of a row or measurement, which are JSON; empty if there are none."""
    return constants_text(constants_of(overrides))


def constants_text(constants: Mapping[str, Any]) -> str:
    """Write constants in the order of the file: `rows=7, features=37`."""
    return ", ".join(f"{name}={value}" for name, value in constants.items())


def summarise(judged: Judged) -> CaseSummary:
    """Fold the rows of one (solution, case) into one record."""
    outcome, rows = judged.outcome, judged.rows
    failure = outcome if isinstance(outcome, Failed) else None
    timed = [row for row in rows if row.time_ns_median is not None] if failure is None else []
    speedups = [row.speedup for row in timed if row.speedup is not None]
    first = timed[0] if timed else None
    attestation = first.attestation if first else "none"
    one_process = (ONE_PROCESS,) if len(timed) == 1 else ()
    return CaseSummary(
        solution=judged.solution,
        case=judged.case,
        status=failure.status if failure else Status.PASSED,
        reason=failure.reason if failure else "",
        log=outcome.log,
        constants=constants_in(rows[0].overrides) if rows else "",
        diagnosis=failure.diagnosis if failure else None,
        findings=outcome.findings,
        flags=tuple(dict.fromkeys((*(f for row in rows for f in row.flags.split()), *one_process))),
        correctness=outcome.correctness,
        rows=rows,
        timings=outcome.timings if isinstance(outcome, Passed) else (),
        stage_s=judged.stage_s,
        time_ns=_median(row.time_ns_median for row in timed),
        reference_ns=_median(row.ref_time_ns_median for row in timed),
        speedup=statistics.geometric_mean(speedups) if speedups else None,
        speedup_low=first.speedup_low if first else None,
        speedup_high=first.speedup_high if first else None,
        percent_of_limit=_median(row.percent_of_limit for row in timed),
        own_share=outcome.own_share if isinstance(outcome, Passed) else None,
        level=outcome.level,
        lacks=outcome.lacks,
        required_level=rows[0].required_level if rows else "",
        accepted=tuple(rows[0].accepted.split()) if rows else (),
        wall_ns=_median(row.wall_ns for row in timed),
        ref_wall_ns=_median(row.ref_wall_ns for row in timed),
        attestation="weak" if any(row.attestation == "weak" for row in timed) else attestation,
        weight=judged.weight,
        noise=_noise(outcome, first) if one_process and first is not None else None,
    )


def _noise(outcome: Outcome, row: ResultRow) -> float | None:
    """Return the noise of a single process's speed-up as a share; None if its samples do not show it."""
    timings = outcome.timings if isinstance(outcome, Passed) else ()
    mine = [timing for timing in timings if timing.samples and timing.samples[0].process == row.process]
    if not mine or row.time_ns_median is None:
        return None
    return one_process_half_width(pair_log_ratios(mine[0].samples), row.device, row.time_ns_median, row.flags.split())


def _median(values: Iterable[float | None]) -> float | None:
    present = [value for value in values if value is not None]
    return statistics.median(present) if present else None
