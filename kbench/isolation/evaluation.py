"""One solution in one worker: the stages of its evaluation, and what they found."""

import contextlib
from dataclasses import dataclass
from typing import Any, Protocol

from kbench.core.errors import ReferenceRaisedError
from kbench.core.model import Failed, Finding, Outcome, Passed, Timing
from kbench.isolation.arena import Arena
from kbench.isolation.battery import Battery
from kbench.isolation.candidate import Candidate
from kbench.isolation.device_clock import DeviceClock
from kbench.isolation.elsewhere import Elsewhere
from kbench.isolation.gradients import check_gradients
from kbench.isolation.host_clock import HostClock
from kbench.isolation.launched import take_profile
from kbench.isolation.memory import release_cached
from kbench.isolation.pairing import Clock, Pacing, Pairing
from kbench.isolation.reference import Reference
from kbench.isolation.refusal import RefusalError
from kbench.isolation.trial import Trial, WrongError, secret_seed
from kbench.isolation.variations import at_full_size
from kbench.measure import device as devices


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """What the parent wants to know of one solution in one case, in this process."""

    process: int
    verify: bool
    time: bool
    pairs: int
    precision: float
    mode: str
    robust: bool
    backward: bool
    crosscheck: bool
    """Whether to take kernel times from the profiler, once, after timing."""
    require_custom: bool
    other_cases: list[dict[str, Any]]
    """Overrides of the further cases that verification covers."""
    derived_cases: list[dict[str, Any]]
    """Overrides that make shapes which the problem does not list."""
    underived: str
    """Why there are none, where the problem lists none either."""
    next_compilers: list[str]
    """Of the evaluations that follow, for which workers may start now."""


class Bench(Protocol):
    """What a judge has for its evaluations."""

    @property
    def reference(self) -> Reference:
        """The reference of the open case."""
        ...

    @property
    def device(self) -> str:
        """`cuda` or `cpu`."""
        ...

    def other(self, overrides: dict[str, Any]) -> Reference:
        """Return the reference of another case of the problem."""
        ...

    def derived(self, overrides: dict[str, Any]) -> Reference | None:
        """Return the reference of a shape that the problem does not list; None where that fails."""
        ...

    def take_reference_worker(self, problem: str) -> Candidate:
        """Return a worker that has opened the device and will run the reference's own model."""
        ...

    def shared(self) -> contextlib.AbstractContextManager[None]:
        """Use the device beside others."""
        ...

    def exclusive(self) -> contextlib.AbstractContextManager[None]:
        """Use the device alone."""
        ...

    def progress(self, **fields: Any) -> None:
        """Tell how far the evaluation is."""
        ...


class Evaluation:
    """One solution in one worker: the stages and what they found."""

    def __init__(self, judge: Bench, candidate: Candidate, assignment: Assignment):
        self._judge = judge
        self._candidate = candidate
        self._assignment = assignment
        self._battery = Battery(candidate, robust=assignment.robust)
        self._elsewhere = Elsewhere(own=judge.reference, battery=self._battery, candidate=candidate, bind=self._bind)
        self._arena: Arena | None = None

    def run(self) -> Outcome:
        """Run the stages; a refusal ends them and becomes the outcome."""
        trial: Trial | None = None
        try:
            self._judge.progress(stage="load")
            self._candidate.prepare()
            with self._judge.shared():
                if self._assignment.verify:
                    self._judge.progress(stage="verify")
                    self._verify_others()
                    self._verify_derived()
                self._candidate.load(self._judge.reference)
                trial = self._bind(self._judge.reference, timed=not self._assignment.verify)
                if self._assignment.verify:
                    self._verify(trial)
            timing = None
            if self._assignment.time:
                timing = self._time(self._bound_anew(trial) if self._assignment.verify else trial)
            else:
                self._profile(trial, None)
        except RefusalError as refusal:
            return self._failed(refusal, trial)
        finally:
            self._candidate.kill()
            if self._arena is not None:
                self._arena.close()
        correctness = trial.tally.correctness(self._judge.reference.factor)
        timings = () if timing is None else (timing,)
        return Passed(correctness=correctness, timings=timings, findings=tuple(self._findings()))

    def _verify(self, trial: Trial) -> None:
        """Verify at the case's own size."""
        self._battery.essentials(trial)
        if self._assignment.other_cases:
            # A solution may treat large inputs otherwise than those of the small cases.
            self._battery.values(trial, at_full_size())
            self._battery.resembling(trial)
        if self._assignment.backward:
            check_gradients(trial, self._candidate)

    def _bind(self, reference: Reference, *, timed: bool = False) -> Trial:
        if self._assignment.verify:
            self._judge.progress(stage="verify")  # each shape may take a compiler its time
        self._unbind()
        on_gpu = self._judge.device == "cuda"
        trial = self._battery.bind(reference, lends=on_gpu or not timed, queued=on_gpu and timed)
        self._arena = trial.arena
        return trial

    def _unbind(self) -> None:
        """Give back what the last shape took, on both sides: two at a time may be more than there is room for."""
        if self._arena is not None:
            self._candidate.unbind()
            self._arena.close()
            release_cached(self._judge.device)
        self._arena = None

    def _bound_anew(self, trial: Trial) -> Trial:
        """Give verifying's memory back before timing: it lies elsewhere than in processes that only time.

        On an H200 that made 0.6 % of the time of `group_norm single_pass`, in the first process of every run.
        """
        anew = self._bind(self._judge.reference, timed=True)
        anew.tally = trial.tally
        return anew

    def _verify_others(self) -> None:
        """Run the battery's checks of values and layouts on the problem's small cases, then every further case."""
        references = [self._judge.other(overrides) for overrides in self._assignment.other_cases]
        for number, reference in enumerate(references or [self._judge.reference]):
            self._candidate.load(reference)
            trial = self._bind(reference)
            self._elsewhere.essentials(trial, listed=True)
            if number == 0:
                self._battery.values(trial)
                self._battery.resembling(trial)
                self._battery.numbers(reference)
                self._battery.layouts(reference)

    def _verify_derived(self) -> None:
        """Verify at shapes that the problem does not list; a solution that says it is not made for one is noted."""
        if self._assignment.underived:
            self._battery.note("shapes_not_derived", f"verified at its own shape only: {self._assignment.underived}")
        for overrides in self._assignment.derived_cases:
            shape = ", ".join(f"{name}={value}" for name, value in overrides.items())
            reference = self._judge.derived(overrides)
            if reference is None:
                self._battery.note("skipped_shape", f"the reference does not accept {shape}")
                continue
            try:
                self._candidate.load(reference)
                self._elsewhere.essentials(self._bind(reference), listed=False)
            except ReferenceRaisedError:  # on inputs drawn later
                self._battery.note("skipped_shape", f"the reference does not accept {shape}")
            except RefusalError as refusal:
                if not self._battery.explain_shape(refusal, shape):
                    raise

    def _time(self, trial: Trial) -> Timing:
        device = self._judge.device
        if not self._assignment.verify:
            self._candidate.vary_weights(trial.reference, secret_seed())
            trial.exchange(secret_seed(), oracle=True)
        with contextlib.ExitStack() as stack:
            reference = self._judge.take_reference_worker(self._candidate.spec.problem)
            stack.callback(reference.kill)
            reference.load(trial.reference)
            reference.bind(trial.reference, trial.arena)
            beside = Trial(trial.reference, reference, trial.arena)
            clock: Clock
            if device == "cuda":
                clock = DeviceClock(trial, beside, cold=self._assignment.mode == "cold")
            else:
                clock = HostClock(trial, beside)
            stack.callback(clock.close)
            stack.enter_context(self._judge.exclusive())
            self._judge.progress(stage="time")
            monitor = stack.enter_context(devices.DeviceMonitor(device))
            pacing = Pacing(
                pairs=self._assignment.pairs,
                process=self._assignment.process,
                precision=self._assignment.precision,
                device=device,
            )
            return Pairing(trial, clock, monitor, pacing).run(
                lambda block: self._judge.progress(stage="time", done=block),
                lambda event_ns: self._profile(trial, event_ns),
            )

    def _profile(self, trial: Trial, event_ns: float | None) -> None:
        """Once per solution and case, where it was asked for: see what a call launches."""
        wanted = self._assignment.crosscheck or self._assignment.require_custom
        if wanted and self._assignment.verify:
            profile = take_profile(trial, self._judge.device)
            self._battery.findings.extend(profile.findings(event_ns if self._assignment.crosscheck else None))
            if self._assignment.require_custom:
                profile.require_custom()

    def _failed(self, refusal: RefusalError, trial: Trial | None) -> Failed:
        correctness = refusal.correctness if isinstance(refusal, WrongError) else None
        if correctness is None and trial is not None and trial.tally.calls:
            correctness = trial.tally.correctness(self._judge.reference.factor)
        why = refusal.diagnosis
        return Failed(
            status=refusal.status,
            reason=refusal.reason if why is None else f"{why.sentence}; {refusal.reason}",
            log=refusal.log,
            correctness=correctness,
            findings=tuple(self._findings()),
            diagnosis=why,
        )

    def _findings(self) -> list[Finding]:
        return self._battery.findings
