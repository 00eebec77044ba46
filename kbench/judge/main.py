"""The judge child: holds reference, seeds, expected values and clock; imports problems, never a solution.

It is not dumpable. Only the parent's channel reaches it, and workers share nothing with it but buffers.
"""

import contextlib
import dataclasses
import threading
import time
import traceback
from pathlib import Path

import torch

from kbench.build import cache
from kbench.catalog import problem as problems
from kbench.catalog import script, shapes
from kbench.core import traces
from kbench.core.errors import KbenchError, ReferenceRaisedError
from kbench.core.model import Failed, Outcome, Passed, Status
from kbench.devices.backend import backend
from kbench.judge.bindings import BoundCandidate
from kbench.judge.candidate import Candidate
from kbench.judge.clock.profile import NOTHING_RECORDED, own_share, profile_warm
from kbench.judge.evaluation import Assignment, Evaluation
from kbench.judge.refusal import RefusalError, UnbuiltError
from kbench.judge.state import NO_ROOM, JudgeState
from kbench.judge.worker_link import REQUEST_TIMEOUT_S, SolutionSpec
from kbench.process.channel import (
    Channel,
    DeadlineError,
    Message,
    PeerGoneError,
    both_ends,
    decode_constants,
    encode_constants,
)
from kbench.process.child import Child
from kbench.process.child_error import OUT_OF_MEMORY, ChildError
from kbench.process.options import decode_options
from kbench.process.worker_start import Deadline, WorkerConfig
from kbench.sandbox import process_tree
from kbench.storage.json_values import plain

IDLE_S = 1.0
"""Chosen. Poll interval, in seconds, of an idle judge that checks whether others wait for the device's memory."""


class JudgeService(JudgeState):
    """Answers the parent's requests."""

    def serve(self) -> None:
        """Answer the parent's requests until it hangs up."""
        self._start_ahead(self._config.compilers)
        while True:
            try:
                message = self._receive()
            except PeerGoneError:
                break
            self._number = message["n"]
            if "problem" in message:
                self._observe(Path(message["problem"]))
            try:
                answer = getattr(self, f"do_{message['op']}")(message)
            except Exception as error:  # noqa: BLE001 - a child main: the parent gets every error
                answer = {"error": describe(error)}
            if (observed := self._observation.news()) is not None:
                answer["observed"] = observed
            self._channel.send({"n": self._number, **answer})
            try:
                self.afterwards.close()
            except Exception:  # noqa: BLE001 - the solution passed; the next one needs the judge
                traceback.print_exc()
        self._start_ahead([])
        self._end_spare()
        self._nursery.kill()
        if self._memory is not None:
            self._memory.close()

    def _receive(self) -> Message:
        """Receive the next request; meanwhile, free the open case if others wait for its memory."""
        while self._memory is not None:
            try:
                return self._channel.receive(IDLE_S)
            except DeadlineError:
                self._give_memory_way()
        return self._channel.receive()

    def do_start(self, _: Message) -> Message:
        """Answer that the judge has started; no code of a problem has run yet."""
        return {}

    def do_derive(self, message: Message) -> Message:
        """Find shapes that the problem does not list; answer with the constants that make them."""
        derived = shapes.derive(Path(message["problem"]), decode_constants(message["overrides"]), self.report_step)
        return {"cases": [encode_constants(changed) for changed in derived.cases], "reason": derived.reason}

    def do_size(self, message: Message) -> Message:
        """Answer with the device memory that a call of a case takes, without allocating any."""
        overrides, small_bytes = decode_constants(message["overrides"]), message["small_bytes"]
        nbytes = problems.footprint_bytes(Path(message["problem"]), overrides, small_bytes, self.report_step)
        return {"bytes": nbytes, "memory_bytes": backend(self.device).identify().memory_bytes}

    def do_admit(self, message: Message) -> Message:
        """Judge other solutions from now on, whose files workers must be able to read."""
        self._start_ahead([])
        self.other_shapes.clear()
        self._config = dataclasses.replace(self._config, files=message["files"])
        script.close(message["files"])
        return {}

    def do_open(self, message: Message) -> Message:
        """Load the problem with the case's overrides; answer with environment and cost."""
        self._problem, self._overrides = Path(message["problem"]), decode_constants(message["overrides"])
        self.timed = message["timed"]
        torch.set_num_threads(self._config.threads)
        self._free_case()
        self._is_alone, self._waited_s = False, 0.0
        self._open_case()
        self._config = dataclasses.replace(self._config, case_bytes=self.reference.cost.dram_bytes)
        return {
            "environment": dataclasses.asdict(backend(self._config.device).identify()),
            "cost": dataclasses.asdict(self.reference.cost),
            "tensors": self.reference.tensors,
            "eval_mode": self.reference.eval_mode,
            "wait_s": self._waited_s,
        }

    def do_evaluate(self, message: Message) -> Message:
        """Judge one solution: verify, then time, each as assigned; answer with its outcome."""
        spec = SolutionSpec(**message["solution"])
        self.reference_build = message["reference"]
        assigned = message["assignment"]
        assigned["options"] = decode_options(assigned["options"])
        for name in ("other_cases", "derived_cases"):
            assigned[name] = [decode_constants(overrides) for overrides in assigned[name]]
        assignment = Assignment(**assigned)
        config = dataclasses.replace(self._config, deadline=self.deadline(message["left_s"]))
        while True:
            try:
                outcome, weights = self._evaluated(spec, config, assignment)
            except NO_ROOM:
                if self._can_retry_alone():
                    continue
                raise
            except UnbuiltError as error:
                return {"unbuilt": str(error), "solution_observed": self._observed.to_json()}
            if not (ran_out_of_memory(outcome) and self._can_retry_alone()):
                answer = {"outcome": plain(outcome), "weights": weights}
                return {**answer, "solution_observed": self._observed.to_json()}

    def _evaluated(self, spec: SolutionSpec, config: WorkerConfig, assignment: Assignment) -> tuple[Outcome, str]:
        """Judge a solution; return its outcome, and the way in which parameters matched."""
        self._stage = "open"
        self._give_memory_way()
        self._open_case()
        candidate = Candidate(spec, config, self.fresh_worker(spec.compiler))
        self._observed = candidate.observed
        evaluation = Evaluation(self, candidate, assignment)
        self.afterwards.callback(evaluation.close)
        outcome: Outcome | None = None
        try:
            self._start_ahead(assignment.next_compilers)
            outcome = evaluation.run()
        finally:
            if not isinstance(outcome, Passed):
                self.afterwards.close()
        return outcome, candidate.weights

    def do_profile(self, message: Message) -> Message:
        """Profile a call in one more worker; answer with the share of a solution's own kernels."""
        spec = SolutionSpec(**message["solution"])
        self._open_case()
        with self.shared():
            deadline = Deadline(limit_s=REQUEST_TIMEOUT_S, at_s=time.monotonic() + REQUEST_TIMEOUT_S)
            config = dataclasses.replace(self._config, deadline=deadline)
            candidate = Candidate(spec, config, self._watched(self._start_worker(spec.compiler)))
            bound = BoundCandidate(candidate, self, lambda: None)
            try:
                candidate.prepare()
                share = own_share(profile_warm(bound.bound_to(self.reference)))
            except RefusalError as refusal:
                return {"share": None, "reason": refusal.reason, "status": refusal.status.value}
            finally:
                candidate.kill()
                bound.close()
        return {"share": share, "reason": NOTHING_RECORDED if share is None else "", "status": ""}


def ran_out_of_memory(outcome: Outcome) -> bool:
    """Return whether a lack of memory decided anything; other processes may have caused it."""
    if any(finding.status is Status.OUT_OF_MEMORY for finding in outcome.findings):
        return True
    match outcome:
        case Failed(status=Status.OUT_OF_MEMORY):
            return True
        case Failed(status=Status.NOT_VERIFIED, reason=reason):
            return OUT_OF_MEMORY.search(reason) is not None
    return False


def describe(error: BaseException) -> Message:
    """Describe an exception of the judge's own for the parent."""
    if isinstance(error, ChildError):
        return {"stage": error.status.value, "type": "", "message": error.reason, "traceback": error.log}
    kind = "reference" if isinstance(error, KbenchError) else "judge"
    if isinstance(error, ReferenceRaisedError) and error.__cause__ is not None:
        error = error.__cause__
    cause = error.__cause__ if isinstance(error, KbenchError) else error
    if cause is None:
        trace = getattr(error, "hint", None) or ""  # a place in kbench helps no user
    elif problems.is_of_a_problem(cause):
        trace = traces.trace_of(cause)
    else:
        trace = "".join(traceback.format_exception(error, limit=-8))
    return {
        "stage": kind,
        "type": "" if isinstance(error, KbenchError) else type(error).__name__,
        "message": both_ends(str(error)),
        "traceback": both_ends(trace),
    }


def serve(channel: Channel, config: Message, nursery: Child, opening: threading.Thread | None) -> None:
    """Serve the parent, as a process whose device is `opening`; see `kbench.judge.start`."""
    with contextlib.suppress(OSError):
        process_tree.become_subreaper()
    known = {**config, "options": decode_options(config["options"])}
    script.close(config["files"])
    built = known.pop("reference_artefacts")
    if built:
        cache.CacheEntry(folder=Path(built)).copy_to(Path(known["home"]))
    JudgeService(channel, WorkerConfig(**known), nursery, opening).serve()
