"""The judge child: holds reference, seeds, expected values and clock; imports problems, never a solution.

It serves the parent: `open` a case, `evaluate` one solution after the other, each in a fresh worker, and
answers with the outcome. Only the parent's channel reaches it; it is not dumpable, and workers hold nothing of it but
shared buffers.
"""

import contextlib
import dataclasses
import json
import math
import socket
import sys
import threading
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kbench.core.errors import KbenchError, ReferenceRaisedError
from kbench.core.model import Failed, Finding, Outcome, Passed, Timing
from kbench.isolation import sandbox
from kbench.isolation.arena import Arena
from kbench.isolation.battery import Battery
from kbench.isolation.candidate import Candidate, RefusalError, SolutionSpec
from kbench.isolation.gradients import check_gradients
from kbench.isolation.launched import take_profile
from kbench.isolation.memory import release_cached
from kbench.isolation.pairing import Pacing, Pairing
from kbench.isolation.process import Child, ChildError
from kbench.isolation.reference import Reference, is_of_the_device
from kbench.isolation.trial import Trial, WrongError, secret_seed
from kbench.isolation.variations import at_full_size
from kbench.isolation.wire import Channel, Message, PeerGoneError, both_ends, decode_constants, encode_constants
from kbench.isolation.workers import StartedWorker, WorkerConfig, memory_limit_bytes, start_nursery
from kbench.measure import device as devices
from kbench.measure.timing import Timer, timer_for
from kbench.plugins import shapes


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


class Judge:
    """State of the judge between requests: the case that is open, and the workers started ahead."""

    def __init__(self, channel: Channel, config: WorkerConfig):
        self._channel = channel
        self._config = config
        self._nursery: Child | None = None
        self._number = 0
        self._workers = 0
        self._ahead: list[StartedWorker] = []
        self._reference: Reference | None = None
        self._problem = Path()
        self._timer: Timer | None = None
        self._others: dict[str, Reference] = {}

    def serve(self) -> None:
        """Answer the parent's requests until it hangs up."""
        self._expect(self._config.compilers)
        while True:
            try:
                message = self._channel.receive()
            except PeerGoneError:
                break
            self._number = message["n"]
            try:
                answer = getattr(self, f"do_{message['op']}")(message)
            except Exception as error:  # noqa: BLE001 - a child main: the parent learns of everything
                answer = {"error": describe(error)}
            self._channel.send({"n": self._number, **answer})
        self._expect([])
        if self._nursery is not None:
            self._nursery.kill()

    def do_derive(self, message: Message) -> Message:
        """Find shapes that the problem does not list; answer with the constants that make them."""
        derived = shapes.derive(Path(message["problem"]), decode_constants(message["overrides"]))
        return {"cases": [encode_constants(changed) for changed in derived.cases], "reason": derived.reason}

    def do_open(self, message: Message) -> Message:
        """Load the problem with the case's overrides; answer with environment and cost."""
        self._problem = Path(message["problem"])
        overrides = decode_constants(message["overrides"])
        import torch

        torch.set_num_threads(self._config.threads)
        # First, since what it keeps would otherwise lie in memory that a large input needs in one piece.
        self._timer = timer_for(self._config.device)
        self._reference = Reference(self._problem, overrides, self._config.device, allow_tf32=self._config.allow_tf32)
        self._config = dataclasses.replace(self._config, case_bytes=self._reference.cost.dram_bytes)
        return {
            "environment": dataclasses.asdict(devices.identify(self._config.device)),
            "cost": dataclasses.asdict(self._reference.cost),
            "eval_mode": self._reference.eval_mode,
        }

    def do_evaluate(self, message: Message) -> Message:
        """Judge one solution: verify, then time, each as assigned; answer with its outcome."""
        spec = SolutionSpec(**message["solution"])
        assigned = message["assignment"]
        for name in ("other_cases", "derived_cases"):
            assigned[name] = [decode_constants(overrides) for overrides in assigned[name]]
        assignment = Assignment(**assigned)
        config = dataclasses.replace(self._config, deadline_s=message["deadline_s"])
        candidate = self._take_worker(spec, config)
        try:
            self._expect(assignment.next_compilers)
            outcome = Evaluation(self, candidate, assignment).run()
        finally:
            candidate.kill()
        return {"outcome": encode(outcome), "weights": candidate.weights}

    @property
    def reference(self) -> Reference:
        """The reference of the open case."""
        assert self._reference is not None, "a case is open"
        return self._reference

    @property
    def timer(self) -> Timer:
        """The clock of the reference: the same kind as the workers'."""
        assert self._timer is not None, "a case is open"
        return self._timer

    @property
    def device(self) -> str:
        """`cuda` or `cpu`."""
        return self._config.device

    def other(self, overrides: dict[str, Any]) -> Reference:
        """Return the reference of another case of the problem, made once."""
        key = repr(sorted(overrides.items()))
        if key not in self._others:
            self._others[key] = Reference(self._problem, overrides, self.device, allow_tf32=self._config.allow_tf32)
        return self._others[key]

    def derived(self, overrides: dict[str, Any]) -> Reference | None:
        """Make the reference of a shape that the problem does not list; None where it fails or is not finite."""
        try:
            made = Reference(self._problem, overrides, self.device, allow_tf32=self._config.allow_tf32)
            return made if made.is_finite() else None
        except Exception as error:
            if is_of_the_device(error):
                raise
            return None

    def progress(self, **fields: Any) -> None:
        """Tell the parent how far the present request is."""
        self._channel.send({"progress": True, "n": self._number, **fields})

    def _expect(self, compilers: list[str]) -> None:
        """Have a worker get ready for each of the solutions that come next, in this order, and for no other."""
        kept = 0
        while kept < len(self._ahead) and [self._ahead[kept].compiler] == compilers[kept : kept + 1]:
            kept += 1
        for worker in self._ahead[kept:]:
            worker.kill()
        del self._ahead[kept:]
        for compiler in compilers[kept:]:
            if self._nursery is None or self._nursery.has_ended:
                self._nursery = start_nursery(self._config)
            self._workers += 1
            self._ahead.append(StartedWorker(self._config, self._nursery, self._workers, compiler=compiler))

    def _take_worker(self, spec: SolutionSpec, config: WorkerConfig) -> Candidate:
        if [worker.compiler for worker in self._ahead[:1]] != [spec.compiler]:
            self._expect([spec.compiler])
        worker = self._ahead.pop(0)
        worker.child.memory_limit_bytes = memory_limit_bytes(config.case_bytes)
        return Candidate(spec, config, worker)


class Evaluation:
    """One solution in one worker: the stages and what they found."""

    def __init__(self, judge: Judge, candidate: Candidate, assignment: Assignment):
        self._judge = judge
        self._candidate = candidate
        self._assignment = assignment
        self._battery = Battery(candidate, robust=assignment.robust)
        self._arena: Arena | None = None

    def run(self) -> Outcome:
        """Run the stages; a refusal ends them and becomes the outcome."""
        trial: Trial | None = None
        try:
            self._judge.progress(stage="load")
            self._candidate.prepare()
            if self._assignment.verify:
                self._judge.progress(stage="verify")
                self._verify_others()
                self._verify_derived()
            self._candidate.load(self._judge.reference)
            trial = self._bind(self._judge.reference)
            if self._assignment.verify:
                self._battery.essentials(trial)
                if self._assignment.other_cases:
                    # A solution may treat large inputs otherwise than those of the small cases.
                    self._battery.values(trial, at_full_size())
                    self._battery.resembling(trial)
                if self._assignment.backward:
                    check_gradients(trial, self._candidate)
            timing = None
            if self._assignment.time:
                trial = self._bound_anew(trial) if self._assignment.verify else trial
                timing = self._time(trial)
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

    def _bind(self, reference: Reference) -> Trial:
        if self._assignment.verify:
            self._judge.progress(stage="verify")  # each shape may take a compiler its time
        self._unbind()
        trial = self._battery.bind(reference, lends=not self._assignment.time)
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
        anew = self._bind(self._judge.reference)
        anew.tally = trial.tally
        return anew

    def _verify_others(self) -> None:
        """Run the battery's checks of values and layouts on the problem's small cases, then every further case."""
        references = [self._judge.other(overrides) for overrides in self._assignment.other_cases]
        for number, reference in enumerate(references or [self._judge.reference]):
            self._candidate.load(reference)
            trial = self._bind(reference)
            self._battery.essentials(trial)
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
                self._battery.essentials(self._bind(reference))
            except ReferenceRaisedError:  # on inputs drawn later
                self._battery.note("skipped_shape", f"the reference does not accept {shape}")
            except RefusalError as refusal:
                if not self._battery.explain_shape(refusal, shape):
                    raise

    def _time(self, trial: Trial) -> Timing:
        self._judge.progress(stage="time")
        pacing = Pacing(
            pairs=self._assignment.pairs,
            process=self._assignment.process,
            mode=self._assignment.mode,
            precision=self._assignment.precision,
        )
        if not self._assignment.verify:
            self._candidate.vary_weights(trial.reference, secret_seed())
            trial.exchange(secret_seed(), oracle=True)
        with devices.DeviceMonitor(self._judge.device) as monitor:
            l2_bytes = devices.identify(self._judge.device).l2_bytes
            pairing = Pairing(trial, self._judge.timer, monitor, pacing, l2_bytes)
            return pairing.run(
                lambda block: self._judge.progress(stage="time", done=block),
                lambda event_ns: self._profile(trial, event_ns),
            )

    def _profile(self, trial: Trial, event_ns: float | None) -> None:
        """Once per solution and case, where it was asked for: see what a call launches."""
        wanted = self._assignment.crosscheck or self._assignment.require_custom
        if wanted and self._assignment.verify:
            flush = event_ns is not None and self._assignment.mode == "cold"
            profile = take_profile(trial, self._judge.device, flush=flush)
            self._battery.findings.extend(profile.findings(event_ns if self._assignment.crosscheck else None))
            if self._assignment.require_custom:
                profile.require_custom()

    def _failed(self, refusal: RefusalError, trial: Trial | None) -> Failed:
        correctness = refusal.correctness if isinstance(refusal, WrongError) else None
        if correctness is None and trial is not None and trial.tally.calls:
            correctness = trial.tally.correctness(self._judge.reference.factor)
        return Failed(
            status=refusal.status,
            reason=refusal.reason,
            log=refusal.log,
            correctness=correctness,
            findings=tuple(self._findings()),
        )

    def _findings(self) -> list[Finding]:
        return self._battery.findings


def encode(record: Any) -> Any:
    """Return a record as JSON values; numbers that JSON lacks become words, which pydantic reads back."""
    if dataclasses.is_dataclass(record) and not isinstance(record, type):
        fields = {f.name: encode(getattr(record, f.name)) for f in dataclasses.fields(record)}
        return {"kind": type(record).__name__, **fields} if isinstance(record, Passed | Failed) else fields
    if isinstance(record, tuple | list):
        return [encode(item) for item in record]
    if isinstance(record, dict):
        return {key: encode(value) for key, value in record.items()}
    if isinstance(record, float) and not math.isfinite(record):
        return str(record)
    return record


def describe(error: BaseException) -> Message:
    """Describe an exception of the judge's own for the parent."""
    if isinstance(error, ChildError):
        return {"stage": error.status.value, "type": "", "message": error.reason, "traceback": error.log}
    kind = "reference" if isinstance(error, KbenchError) else "judge"
    if isinstance(error, ReferenceRaisedError) and error.__cause__ is not None:
        error = error.__cause__
    trace = "".join(traceback.format_exception(error, limit=-8))
    if isinstance(error, KbenchError) and error.__cause__ is None:
        trace = error.hint or ""  # where in kbench a rule of its own is broken tells nobody anything
    return {
        "stage": kind,
        "type": "" if isinstance(error, KbenchError) else type(error).__name__,
        "message": both_ends(str(error)),
        "traceback": both_ends(trace),
    }


def main() -> None:
    """Serve on the socket whose descriptor is the first argument."""
    sandbox.harden_judge()
    with contextlib.suppress(OSError):
        sandbox.become_subreaper()
    warm = threading.Thread(target=_warm_up, daemon=True)
    warm.start()
    channel = Channel(socket.socket(fileno=int(sys.argv[1])))
    Judge(channel, WorkerConfig(**json.loads(sys.argv[2]))).serve()


def _warm_up() -> None:
    """Import torch while the parent is still preparing its first request."""
    import torch  # noqa: F401


if __name__ == "__main__":
    main()
