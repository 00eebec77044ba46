"""The state of one (solution, case) of a run, updated after each process."""

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from kbench.build import hints
from kbench.core import stats
from kbench.core.budget import advice, affords_more, is_far_off
from kbench.core.events import REFERENCE_STAGES, Estimated, Judged, RunOptions
from kbench.core.kernel_names import OwnShare, flag_of
from kbench.core.levels import WEIGHT_CODES, Level
from kbench.core.model import Case, Failed, Finding, FindingKind, Outcome, Passed, ResultRow, Status
from kbench.core.values import worst
from kbench.plugins.registry import Entry
from kbench.plugins.shapes import Derived
from kbench.units.unit import Unit

NOT_RUN = Failed(status=Status.NOT_VERIFIED, reason="not run")


@dataclass(slots=True)
class CaseState:
    """The results of one (solution, case) so far."""

    entry: Entry
    case: Case
    outcome: Outcome = NOT_RUN
    rows: tuple[ResultRow, ...] = ()
    stage_s: dict[str, float] = field(default_factory=dict)
    closed: bool = False
    out_of_budget: bool = False
    """Whether only the budget prevented another process."""

    def add(self, outcome: Outcome) -> None:
        """Add the outcome of one more process: a failure replaces the state, a pass adds its timing and errors.

        The last of several findings with one code stays; their numbers differ from process to process.
        """
        if isinstance(outcome, Passed) and isinstance(self.outcome, Passed):
            of_both = (*self.outcome.findings, *outcome.findings)
            outcome = replace(
                self.outcome,
                correctness=worst(self.outcome.correctness, outcome.correctness),
                timings=(*self.outcome.timings, *outcome.timings),
                findings=tuple({finding.code: finding for finding in of_both}.values()),
            )
        self.outcome = outcome

    def add_times(self, stage_s: Mapping[str, float]) -> None:
        """Add the seconds of a process's stages, without those of the judge's own side."""
        for stage, elapsed_s in stage_s.items():
            if stage not in REFERENCE_STAGES:
                self.stage_s[stage] = self.stage_s.get(stage, 0.0) + elapsed_s

    def unit(self, problem: Entry, process: int, options: RunOptions, derived: Derived) -> Unit:
        """Return one more process, given those before it."""
        return Unit(
            problem=problem,
            solution=self.entry,
            case=self.case,
            process=process,
            options=options,
            derived=derived,
            follows=self.follows_weights(options),
            precision=stats.worthwhile_precision(self.estimates, options.precision),
        )

    def follows_weights(self, options: RunOptions) -> bool:
        """Return whether parameters may change while it is timed, because it follows changed parameters."""
        passed = isinstance(self.outcome, Passed) and options.level is not Level.TASK
        return passed and WEIGHT_CODES.isdisjoint(self.outcome.lacks)

    def give_up(self, reason: str) -> None:
        """End a solution because its device is gone: without a verdict, or with the processes that it has."""
        if isinstance(self.outcome, Passed):
            cut = Finding(code="device_quarantined", kind=FindingKind.TIMING, message=reason)
            self.outcome = replace(self.outcome, findings=(*self.outcome.findings, cut))
        elif self.outcome is NOT_RUN:
            self.outcome = Failed(status=Status.NOT_VERIFIED, reason=reason)

    def judged(self, case: str, rows: tuple[ResultRow, ...]) -> Judged:
        """Return the event of a finished case, by the name that it was judged under."""
        weight, stage_s = self.case.weight, dict(self.stage_s)
        name = self.entry.name
        return Judged(solution=name, case=case, outcome=self.outcome, rows=rows, stage_s=stage_s, weight=weight)

    @property
    def estimates(self) -> list[float]:
        """Log speed-up of each process that has usable pairs."""
        timings = self.outcome.timings if isinstance(self.outcome, Passed) else ()
        return [stats.process_estimate(t) for t in timings if stats.pair_log_ratios(t.samples)]

    def wants_more(self, options: RunOptions) -> bool:
        """Return whether another process is due: for verification once, for timing until the interval is narrow."""
        if self.outcome is NOT_RUN:
            return True
        if isinstance(self.outcome, Failed) or options.verify_only:
            return False
        estimates = self.estimates
        done = len(self.outcome.timings)
        if done >= options.max_processes or options.max_processes == 1:
            return False
        if not stats.needs_more_processes(estimates, options.precision, options.processes, options.max_processes):
            return False
        # The first ones are always measured: the interval of two processes is too wide to use.
        if options.budget_s is None or done < options.processes:
            return True
        measured_s = self.stage_s.get("time", 0.0)
        width = stats.ratio_interval(estimates).half_width if len(estimates) > 1 else math.inf
        self.out_of_budget = not affords_more(measured_s, done, options.budget_s) or is_far_off(
            width, math.log1p(options.precision), measured_s, done, options.budget_s
        )
        return not self.out_of_budget

    def estimate(self, options: RunOptions) -> Estimated | None:
        """Return the estimate from the processes so far; None without a timed process."""
        estimates = self.estimates
        if not estimates:
            return None
        interval = stats.ratio_interval(estimates) if len(estimates) > 1 else None
        spent_s, done = self.stage_s.get("time", 0.0), len(estimates)
        due_s = (options.processes - done) * spent_s / done  # measured whatever the budget is
        return Estimated(
            solution=self.entry.name,
            case=self.case.name,
            speedup=math.exp(-statistics.fmean(estimates)),
            half_width=interval.half_width if interval is not None else None,
            left_s=None if options.budget_s is None else max(options.budget_s - spent_s, due_s),
        )

    def add_own_share(self, told: OwnShare) -> None:
        """Add the share of the solution's own kernels to a pass, or a note on why it is not known."""
        if isinstance(self.outcome, Passed):
            note = Finding.note("kernels", f"whose kernels a call launches is not known: {told.reason}")
            findings = (*self.outcome.findings, *([note] if told.share is None else []))
            self.outcome = replace(self.outcome, own_share=told.share, findings=findings)

    @property
    def share_flag(self) -> str:
        """The flag that follows from the share of the solution's own kernels; empty for none."""
        if not isinstance(self.outcome, Passed) or self.entry.builtin is not None:
            return ""
        declares = hints.declares_kernels(self.entry.path, self.entry.builtin)
        return flag_of(self.outcome.own_share, declares_kernels=declares)

    def tell_budget(self, options: RunOptions) -> None:
        """Add a finding on what more time would bring, if the budget ended the measurement."""
        if not self.out_of_budget or not isinstance(self.outcome, Passed):
            return
        interval = stats.timings_interval(self.outcome.timings)
        if interval is not None and interval.half_width > math.log1p(options.precision):
            processes = len(self.outcome.timings)
            message = advice(interval.half_width, options.precision, self.stage_s["time"], processes)
            found = Finding(code="imprecise", kind=FindingKind.TIMING, message=message)
            self.outcome = replace(self.outcome, findings=(*self.outcome.findings, found))
