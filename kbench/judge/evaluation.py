"""One solution in one worker: the stages of its evaluation, and their findings."""

import functools
import secrets
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from kbench.core.events import RunOptions
from kbench.core.levels import Level, blocking, foremost, held, shortfall
from kbench.core.model import Failed, Finding, FindingKind, Outcome, Passed, Status, Timing
from kbench.core.values import DRAWS
from kbench.devices.backend import backend
from kbench.devices.monitor import DeviceMonitor
from kbench.judge.bindings import BoundCandidate
from kbench.judge.candidate import Candidate
from kbench.judge.clock.gate_clock import DeviceClock, NotQueuedError
from kbench.judge.clock.host_clock import HostClock
from kbench.judge.clock.mapped_results import UnreadableError
from kbench.judge.clock.pairing import ArmClock, Pairing
from kbench.judge.clock.profile import kernels_in_words, own_share, profile_judged, require_custom
from kbench.judge.exchange import Trial
from kbench.judge.matching import Copied, WeightPlan
from kbench.judge.reference.drawing import secret_seed
from kbench.judge.refusal import RefusalError, WrongError, default_dtype
from kbench.judge.state import JudgeState
from kbench.judge.verify.battery import Battery
from kbench.judge.verify.checks import On, beyond_task, resembling
from kbench.judge.verify.levels import Levels, is_long
from kbench.judge.verify.variations import RESEMBLING


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """Task of the judge: one solution in one case, in this process."""

    process: int
    verify: bool
    options: RunOptions
    follows: bool
    """True if the solution is known to follow changed parameters, from a process that verified it."""
    other_cases: list[dict[str, Any]]
    """Overrides of the further cases that verification covers."""
    derived_cases: list[dict[str, Any]]
    """Overrides for shapes that the problem does not list."""
    underived: str
    """Reason why no shape could be derived, if the problem lists none either."""
    next_compilers: list[str]
    """Compilers of the next evaluations, for which workers may start now."""
    is_unchanged: bool
    """True if its files are those that this judge verified last: another case may have tried the other shapes."""


class Evaluation:
    """One solution in one worker: the stages and their findings."""

    def __init__(self, judge: JudgeState, candidate: Candidate, assignment: Assignment):
        self._judge = judge
        self._candidate = candidate
        self._assignment = assignment
        self._battery = Battery()
        is_task = assignment.options.level is Level.TASK
        others, derived = ([], []) if is_task else (assignment.other_cases, assignment.derived_cases)
        stage = "verify" if assignment.verify else "load"
        self._bound = BoundCandidate(candidate, judge, lambda: judge.progress(stage=stage))
        spec = candidate.spec
        self._other_shapes = judge.other_shapes.setdefault((spec.path, spec.entry, spec.builtin), {})
        if not assignment.is_unchanged:
            self._other_shapes.clear()
        # Where calls are long, other shapes have more of the checks.
        self._shapes = f"{judge.timed} {is_long(judge.reference.cost)} {others} {derived}"
        known = self._other_shapes.get(self._shapes)
        self._levels = Levels(self._bound, self._battery, judge, others, derived, known)
        self._level: Level | None = None
        self._kernel_share: float | None = None
        self._peak_bytes = 0

    def run(self) -> Outcome:
        """Run the stages; a refusal ends them and becomes the outcome."""
        verify_only = self._assignment.options.verify_only
        try:
            with self._judge.shared(), self._judge.workers_open(reference=not verify_only):
                self._judge.progress(stage="load")
                self._candidate.prepare()
                trial = self._bound.constructed(self._judge.reference, timed=not self._assignment.verify)
                if self._assignment.verify:
                    self._judge.progress(stage="verify")
                    self._verify(trial)
            timing = None
            if not verify_only:
                timing = self._time()
            elif self._profiles:
                with self._judge.shared():
                    self._profile(self._bound.bound_to(self._judge.reference))
        except RefusalError as refusal:
            return self._failed(refusal)
        return Passed(
            correctness=self._bound.tally.correctness(self._judge.reference.factor),
            timings=() if timing is None else (timing,),
            findings=self._findings(),
            level=self._level,
            lacks=self._lacks,
            own_share=self._kernel_share,
            peak_bytes=self._peak_bytes if backend(self._judge.device).has_own_memory else None,
            log=self._candidate.log,
        )

    def close(self) -> None:
        """End the candidate's worker, and free the memory that it shares with the judge."""
        self._candidate.kill()
        self._bound.close()

    @property
    def _lacks(self) -> tuple[str, ...]:
        """Missing properties of the levels that were tried."""
        return () if self._assignment.options.level is Level.TASK else tuple(sorted(self._levels.lacks))

    def _verify(self, trial: Trial) -> None:
        """Verify the task, then the levels beyond it. Raises RefusalError below the required level."""
        assignment, required = self._assignment, self._assignment.options.level
        trial = self._verify_task(trial)
        self._level = Level.TASK
        if required is Level.TASK:
            return
        if assignment.underived:
            message = f"verified at the problem's own shape only: {assignment.underived}"
            self._battery.note("shapes_not_derived", message)
        self._levels.note_unmatched()
        try:
            rows = beyond_task(is_long=self._levels.is_long, batch_invariant=assignment.options.batch_invariant)
            self._levels.try_all(rows)
            self._other_shapes[self._shapes] = self._levels.elsewhere
        except RefusalError:
            self._level = None
            raise
        if not trial.proves_little:
            self._battery.withdraw("trivial_passes")  # true at another shape, or with other weights only
        lacks = self._levels.lacks
        self._level = held(lacks)
        codes = blocking(lacks, required, assignment.options.accept)
        if codes:
            first = lacks[foremost(codes)]
            why = first.diagnosis.sentence if first.diagnosis is not None else ""
            reason = shortfall(lacks, required, assignment.options.accept, why)
            below = RefusalError(Status.BELOW_LEVEL, reason, first.log)
            below.diagnosis = first.diagnosis
            raise below

    def _verify_task(self, trial: Trial) -> Trial:
        """Verify the task; return the bound trial. A first call may fold a scale into the parameters."""
        try:
            self._as_constructed(trial)
        except RefusalError as refusal:
            if refusal.status is not Status.PARAMETER_MUTATED:
                raise
            self._levels.changes_parameters = True
            try:
                trial = self._bound.constructed(trial.reference, first=WeightPlan(copied=Copied.NOTHING))
                self._as_constructed(trial)
            except WrongError:
                raise refusal from None
        return trial

    def _as_constructed(self, trial: Trial) -> None:
        seeds = [secret_seed() for _ in range(DRAWS - 1)]
        for seed in seeds:
            self._bound.seeded(trial.reference, functools.partial(trial.exchange, seed, oracle=True))
        # These inputs came with other weights before, so a remembered answer is wrong.
        self._battery.settled(trial, seeds[0])
        few = [secrets.choice(RESEMBLING)] if self._levels.is_long else RESEMBLING
        self._levels.try_all(resembling(few, On.OWN))
        self._peak_bytes = trial.peak_bytes

    def _time(self) -> Timing:
        """Time both arms; in fresh workers by loops, or with copies, where nothing else works."""
        unqueued, fetches = "", True
        while True:
            try:
                return self._paired(unqueued, fetches=fetches)
            except UnreadableError:
                if not fetches:
                    raise
                fetches = False
            except NotQueuedError as error:
                self._battery.note("not_recorded", str(error))
                unqueued = error.arm
            self._bound.reconstruct_next()

    def _paired(self, unqueued: str, *, fetches: bool) -> Timing:
        device = self._judge.device
        with ExitStack() as stack:
            with self._judge.shared():
                self._judge.progress(stage="load")
                trial, clock = self._arms(stack, device, unqueued, fetches=fetches)
            with self._judge.exclusive():
                self._judge.progress(stage="time")
                with DeviceMonitor(device) as monitor:
                    timing = Pairing(trial, clock, monitor, self._assignment.options, self._assignment.process).run(
                        lambda block: self._judge.progress(stage="time", done=block), lambda _: self._profile(trial)
                    )
            self._judge.afterwards.push(stack.pop_all())
            return timing

    def _arms(self, stack: ExitStack, device: str, unqueued: str, *, fetches: bool) -> tuple[Trial, ArmClock]:
        """Bind both arms anew, and make their clock; resources to close go to the stack."""
        if self._assignment.verify:
            # Memory of verification is freed, so that addresses are as in processes that only time. Otherwise the
            # first process of a run of `group_norm single_pass` is off by 0.6 % on an H200.
            self._bound.rebind_next()
        else:
            self._candidate.follows = self._assignment.follows
        trial = self._bound.bound_to(self._judge.reference, timed=True)
        trial.is_timed = True
        self._candidate.vary_weights(trial.reference)
        trial.exchange(oracle=not self._assignment.verify)  # fp64 was computed during verification
        self._peak_bytes = max(self._peak_bytes, trial.peak_bytes)
        trial.take_back()  # the reference's process may be lent memory of the same arena
        trial.candidate.pause()
        # From here on, three processes call and need the memory that the fp64 model left in this one's cache.
        backend(device).release_cached()
        reference = self._judge.take_reference_worker()
        stack.callback(reference.kill)
        with self._judge.constructing(reference.spec):
            reference.load(trial.reference)
        reference.bind(trial.reference, trial.arena)
        beside = Trial(trial.reference, reference, trial.arena)
        clock: ArmClock
        if backend(device).queues_calls:
            mode = self._assignment.options.mode
            clock = DeviceClock(trial, beside, cold=mode == "cold", replays=mode != "graph", unqueued=unqueued)
            clock.warm_up()
        else:
            clock = HostClock(trial, beside, fetches=fetches)
        stack.callback(clock.close)
        return trial, clock

    @property
    def _profiles(self) -> bool:
        """True if `--require-custom` asks for a profile: once for each solution and case."""
        return self._assignment.verify and self._assignment.options.require_custom

    def _profile(self, trial: Trial) -> None:
        if self._profiles:
            seen, device = profile_judged(trial), self._judge.device
            self._kernel_share = own_share(seen)
            self._battery.withdraw("kernels")  # a first try does not count
            self._battery.note("kernels", kernels_in_words(seen, device))
            require_custom(seen, device, self._candidate.log)

    def _failed(self, refusal: RefusalError) -> Failed:
        correctness = refusal.correctness if isinstance(refusal, WrongError) else None
        if correctness is None and self._bound.tally.figures.calls:
            correctness = self._bound.tally.correctness(self._judge.reference.factor)
        below = refusal.status is Status.BELOW_LEVEL
        return Failed(
            status=refusal.status,
            reason=(refusal.reason if below else refusal.explained) + default_dtype(refusal),
            log=refusal.log,
            correctness=correctness,
            findings=self._findings(),
            diagnosis=refusal.diagnosis,
            level=self._level if below else None,
            lacks=self._lacks if below else (),
        )

    def _findings(self) -> tuple[Finding, ...]:
        options, lacks = self._assignment.options, self._levels.lacks
        fatal = blocking(lacks, options.level, options.accept)
        of_level = (
            Finding(code=code, kind=FindingKind.LEVEL, message=why.explained, fatal=code in fatal, status=why.status)
            for code, why in sorted(lacks.items())
            if code in self._lacks
        )
        return (*self._battery.findings, *self._bound.tally.notes(), *of_level)
