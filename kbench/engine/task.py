"""Tasks, what the units of a task come to, and the events of judging them."""

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

from kbench.catalog.registry import Entry
from kbench.catalog.shapes import Derived
from kbench.core import stats
from kbench.core.budget import affords_more, is_far_off
from kbench.core.events import Estimated, LargeCases, RunOptions, StageEvent
from kbench.core.kernel_names import OwnShare
from kbench.core.levels import WEIGHT_CODES, Level
from kbench.core.model import Case, Failed, Finding, Outcome, Passed, Status
from kbench.core.values import worst
from kbench.engine.unit import Unit, UnitResult

NOT_RUN = Failed(status=Status.NOT_VERIFIED, reason="not run")


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One solution of one case of a problem: one verdict from one or more units."""

    key: str
    problem: Entry
    solution: Entry
    case: Case
    cases: tuple[Case, ...] = ()
    """All cases of the problem that are judged: none of them takes the place of this one; empty: this one."""
    options: RunOptions
    claim: float | None = None
    """The speed-up that its author claims."""
    tags: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    """Names of solutions with the same source, which share its verdict."""
    refused: Failed | None = None
    """Why it is refused before it is built."""
    unbuilt: Failed | None = None
    """Why it could not be constructed when it was built, which may be the problem's own fault."""
    built_s: float | None = None
    """Seconds of its build, until a unit has them among its own."""

    @property
    def first_case(self) -> Case:
        """The first of the problem's cases that are judged."""
        return self.cases[0] if self.cases else self.case

    @property
    def name(self) -> str:
        """Problem, solution and case."""
        return f"{self.problem.name} · {self.solution.name} · {self.case.name}"


def combined(before: Outcome, after: Outcome) -> Outcome:
    """Return the outcome of two processes: a failure replaces a pass, a pass adds its timing and errors.

    The last of several findings with one code stays; their numbers differ from process to process.
    """
    if not (isinstance(before, Passed) and isinstance(after, Passed)):
        return after
    return replace(
        before,
        correctness=worst(before.correctness, after.correctness),
        timings=(*before.timings, *after.timings),
        findings=tuple({finding.code: finding for finding in (*before.findings, *after.findings)}.values()),
        own_share=before.own_share if after.own_share is None else after.own_share,
    )


@dataclass(frozen=True, kw_only=True)
class TaskVerdict:
    """A task and the results of its units so far, one for each process."""

    task: Task
    results: tuple[UnitResult, ...]
    resumed: bool = False
    """It was read from the journal."""

    @property
    def last(self) -> UnitResult:
        """Result of the last unit, which decides."""
        return self.results[-1]

    @cached_property
    def outcome(self) -> Outcome:
        """The outcome of all processes together."""
        if not self.results:
            return NOT_RUN
        outcome = self.results[0].outcome
        for result in self.results[1:]:
            outcome = combined(outcome, result.outcome)
        return outcome

    @property
    def status(self) -> Status:
        """`passed`, or why not."""
        return self.last.status

    @cached_property
    def stage_s(self) -> dict[str, float]:
        """Seconds by stage, of all processes."""
        found: dict[str, float] = {}
        for result in self.results:
            for stage, elapsed_s in result.stage_s.items():
                found[stage] = found.get(stage, 0.0) + elapsed_s
        return found

    @property
    def is_held(self) -> bool:
        """The judge's clock confirms the times of all processes."""
        outcomes = [result.outcome for result in self.results]
        timings = [timing for outcome in outcomes if isinstance(outcome, Passed) for timing in outcome.timings]
        return bool(timings) and all(timing.attestation == "held" for timing in timings)

    @property
    def is_done(self) -> bool:
        """The task needs no further unit."""
        return bool(self.results) and not self.wants_more

    @property
    def wants_more(self) -> bool:
        """Another process is due: for verification once, for timing until the interval is narrow."""
        if not self.results:
            return True
        options, outcome = self.task.options, self.outcome
        if isinstance(outcome, Failed) or options.verify_only:
            return False
        done = len(outcome.timings)
        if done >= options.max_processes or options.max_processes == 1:
            return False
        if not stats.needs_more_processes(self.estimates, options.precision, options.processes, options.max_processes):
            return False
        # The first ones are always measured: the interval of two processes is too wide to use.
        return done < options.processes or not self._exceeds_budget(options)

    def _exceeds_budget(self, options: RunOptions) -> bool:
        """Return whether the budget prevents another process."""
        if options.budget_s is None:
            return False
        measured_s, done, estimates = self.stage_s.get("time", 0.0), len(self.results), self.estimates
        width = stats.ratio_interval(estimates).half_width if len(estimates) > 1 else math.inf
        return not affords_more(measured_s, done, options.budget_s) or is_far_off(
            width, math.log1p(options.precision), measured_s, done, options.budget_s
        )

    @property
    def estimates(self) -> list[float]:
        """Log speed-up of each process that has usable pairs."""
        timings = self.outcome.timings if isinstance(self.outcome, Passed) else ()
        return [stats.process_estimate(t) for t in timings if stats.pair_log_ratios(t.samples)]

    def estimate(self) -> Estimated | None:
        """Return the estimate from the processes so far; None without a timed process."""
        estimates = self.estimates
        if not estimates:
            return None
        interval = stats.ratio_interval(estimates) if len(estimates) > 1 else None
        return Estimated(
            solution=self.task.solution.name,
            case=self.task.case.name,
            speedup=math.exp(-statistics.fmean(estimates)),
            half_width=interval.half_width if interval is not None else None,
        )

    def unit(self, derived: Derived) -> Unit:
        """Return one more process, given those before it."""
        task, outcome = self.task, self.outcome
        passed = isinstance(outcome, Passed) and task.options.level is not Level.TASK
        return Unit(
            problem=task.problem,
            solution=task.solution,
            case=task.case,
            process=len(self.results),
            options=task.options,
            derived=derived,
            follows=passed and WEIGHT_CODES.isdisjoint(outcome.lacks),
            precision=stats.worthwhile_precision(self.estimates, task.options.precision),
        )


def with_own_share(outcome: Passed, share: OwnShare) -> Passed:
    """Add the share of the solution's own kernels to a pass, or a note on why it is not known."""
    note = Finding.note("kernels", f"whose kernels a call launches is not known: {share.reason}")
    findings = (*outcome.findings, *([note] if share.share is None else []))
    return replace(outcome, own_share=share.share, findings=findings)


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPlanned:
    """The tasks are known, and the verdicts that the journal has already."""

    run: str
    tasks: int
    resumed: int
    devices: tuple[str, ...]
    lanes: int
    jobs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """One verdict is on the disk."""

    verdict: TaskVerdict


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceState:
    """The state of a device has changed."""

    device: str
    state: str
    """`ready`, `suspect`, `back in service` or `out of service`."""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retried:
    """A unit failed because of kbench and is tried again."""

    task: Task
    attempt: int
    reason: str


SweepEvent = SweepPlanned | StageEvent | Estimated | LargeCases | Finished | Retried | DeviceState
Report = Callable[[SweepEvent], None]
"""Takes an event."""
