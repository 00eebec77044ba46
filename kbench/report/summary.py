"""What a run amounts to: its events folded into one record that every renderer reads."""

import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kbench.core.diagnosis import Diagnosis
from kbench.core.errors import KbenchError
from kbench.core.events import Judged, Planned
from kbench.core.model import Correctness, Environment, Failed, Finding, FindingKind, ResultRow, Status


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseSummary:
    """One solution on one case, over all its processes. Times are medians over processes of medians."""

    solution: str
    case: str
    status: Status
    reason: str
    log: str
    diagnosis: Diagnosis | None
    """Why values are wrong; the reason begins with its sentence."""
    findings: tuple[Finding, ...]
    flags: tuple[str, ...]
    correctness: Correctness | None
    rows: tuple[ResultRow, ...]
    stage_s: dict[str, float]
    time_ns: float | None
    reference_ns: float | None
    speedup: float | None
    speedup_low: float | None
    speedup_high: float | None
    limit_ns: int | None
    percent_of_limit: float | None

    @property
    def passed(self) -> bool:
        """Whether the solution held every check of this case."""
        return self.status is Status.PASSED

    @property
    def half_width_ns(self) -> float | None:
        """Half-width of the candidate's time that follows from the interval of its speed-up."""
        if self.time_ns is None or not self.speedup or self.speedup_low is None or self.speedup_high is None:
            return None
        return self.time_ns * (self.speedup_high - self.speedup_low) / 2 / self.speedup

    @property
    def advice(self) -> tuple[str, ...]:
        """Codes that `kbench explain` knows and that a reader of this result should see, worst first."""
        codes = [] if self.passed else [self.status.value]
        codes += [finding.code for finding in self.findings if finding.kind is not FindingKind.NOTE]
        return tuple(dict.fromkeys((*codes, *self.flags)))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """A run as far as it came; `error` and `interrupted` say why it did not come further."""

    problem: str
    planned: Planned | None
    cases: tuple[CaseSummary, ...]
    environment: Environment | None = None
    csv_path: str | None = None
    reference_s: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """By case and stage: what the judge's own side took, over all processes."""
    elapsed_s: float | None = None
    """Of the whole run, or of what there was of it."""
    error: KbenchError | None = None
    interrupted: bool = False

    @property
    def failing(self) -> tuple[CaseSummary, ...]:
        """Cases that ended in anything but a pass; a skipped one did not fail."""
        return tuple(case for case in self.cases if case.status not in {Status.PASSED, Status.SKIPPED})

    @property
    def status(self) -> str:
        """`error`, `interrupted`, the status of the first failing case, `skipped`, or `passed`."""
        if self.error is not None:
            return "error"
        if self.interrupted:
            return "interrupted"
        if self.failing:
            return self.failing[0].status.value
        if not any(case.passed for case in self.cases):
            return Status.SKIPPED.value
        return Status.PASSED.value

    @property
    def reason(self) -> str:
        """Why the status is not `passed`, empty where it is."""
        if self.error is not None:
            return self.error.message
        if self.interrupted:
            return "interrupted"
        shown = self.failing or tuple(case for case in self.cases if not case.passed)
        if shown and self.status != Status.PASSED.value:
            return f"{shown[0].solution}, case {shown[0].case}: {shown[0].reason}"
        return ""

    @property
    def solutions(self) -> tuple[str, ...]:
        """Names of the judged solutions in order."""
        return tuple(dict.fromkeys(case.solution for case in self.cases))

    @property
    def speedup(self) -> float | None:
        """Geometric mean over the cases of a run's one solution; None if any case failed or has no time."""
        return self.speedup_of(self.solutions[0]) if len(self.solutions) == 1 else None

    def speedup_of(self, solution: str) -> float | None:
        """Geometric mean of a solution's speed-ups; None if it failed any case: that is no speed-up."""
        cases = [case for case in self.cases if case.solution == solution and case.status is not Status.SKIPPED]
        values = [case.speedup for case in cases if case.passed and case.speedup is not None]
        return geometric_mean(values) if values and len(values) == len(cases) else None


def summarise(judged: Judged) -> CaseSummary:
    """Fold the rows of one (solution, case) into one record."""
    outcome, rows = judged.outcome, judged.rows
    failed = isinstance(outcome, Failed)
    timed = [row for row in rows if row.time_ns_median is not None] if not failed else []
    speedups = [row.speedup for row in timed if row.speedup is not None]
    first = timed[0] if timed else None
    one_process = ("one_process",) if len(timed) == 1 else ()
    return CaseSummary(
        solution=judged.solution,
        case=judged.case,
        status=outcome.status if isinstance(outcome, Failed) else Status.PASSED,
        reason=outcome.reason if isinstance(outcome, Failed) else "",
        log=outcome.log if isinstance(outcome, Failed) else "",
        diagnosis=outcome.diagnosis if isinstance(outcome, Failed) else None,
        findings=outcome.findings,
        flags=tuple(dict.fromkeys((*(f for row in rows for f in row.flags.split()), *one_process))),
        correctness=outcome.correctness,
        rows=rows,
        stage_s=judged.stage_s,
        time_ns=_median(row.time_ns_median for row in timed),
        reference_ns=_median(row.ref_time_ns_median for row in timed),
        speedup=geometric_mean(speedups) if speedups else None,
        speedup_low=first.speedup_low if first else None,
        speedup_high=first.speedup_high if first else None,
        limit_ns=first.limit_ns if first else None,
        percent_of_limit=_median(row.percent_of_limit for row in timed),
    )


def geometric_mean(values: Iterable[float]) -> float:
    """Mean of ratios: the only one under which a ratio and its inverse cancel."""
    return math.exp(statistics.fmean(math.log(value) for value in values))


def _median(values: Iterable[float | None]) -> float | None:
    present = [value for value in values if value is not None]
    return statistics.median(present) if present else None
