"""State that the judge's evaluations share: the references of the open case, workers, the device."""

import contextlib
import platform
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import torch

from kbench.build.extensions import ExtensionBuilds
from kbench.build.observation import Observation
from kbench.catalog import problem as problems
from kbench.catalog.problem import OwnTime
from kbench.core.timed import FORWARD
from kbench.devices.admission import Admission, Wait
from kbench.devices.backend import backend
from kbench.judge.candidate import Candidate
from kbench.judge.reference.reference import Reference
from kbench.judge.refusal import RefusalError
from kbench.judge.worker_link import SolutionSpec
from kbench.process.channel import Channel
from kbench.process.child import Child
from kbench.process.child_error import ChildError, is_of_the_device
from kbench.process.observed import Observed
from kbench.process.worker_start import (
    SETUP_TIMEOUT_S,
    Deadline,
    WorkerConfig,
    WorkerProcess,
    memory_limit_bytes,
)

NO_ROOM = (torch.OutOfMemoryError, MemoryError)
"""Errors of torch, and of the driver for shared memory, when the device has no room."""
HEARTBEAT_S = 5.0
"""Interval between reports of a judge that waits for the device, so that the parent knows it is alive."""


class JudgeState:
    """State of the judge between requests: the case that is open, and the workers started ahead."""

    def __init__(self, channel: Channel, config: WorkerConfig, nursery: Child, opens: Thread | None = None):
        self._channel = channel
        self._config = config
        self._nursery = nursery
        self._number = self._workers = 0
        self._ahead: list[WorkerProcess] = []
        self._spare: WorkerProcess | None = None
        """A worker that will run the reference beside a candidate."""
        backend(config.device).settle()
        self._opens = opens
        self._reference: Reference | None = None
        self._problem = Path()
        self._overrides: dict[str, Any] = {}
        self.timed = FORWARD
        self._others: dict[str, Reference] = {}
        self.other_shapes: dict[tuple[str, ...], dict[str, Any]] = {}
        """Results at other shapes than a case's own, by solution and shapes; the further cases of a run share them."""
        self._memory: contextlib.ExitStack | None = None
        """Holds the lock of the device's memory while a case is open."""
        self._is_alone = False
        """True if the open case ran out of memory beside other processes, and no other may have memory meanwhile."""
        self._lease: contextlib.ExitStack | None = None
        """Holds the device's lock within `shared`."""
        self._stage = "open"
        self._where = ""
        """Constants of the reference that is being made, if they are not those of the open case."""
        self._is_waiting = False
        self._waited_s = 0.0
        """Time in which others held the device, or memory that the open case needs, since the case was requested."""
        self._problem_time = OwnTime()
        self._observation = Observation()
        """Record of the files that the problem's own code reads and the programs that it starts in this process."""
        ExtensionBuilds(self._observation, lambda: self._observation.need("compiled an extension")).install()
        self._observed = Observed()
        """The same record of the judged solution, in its workers."""
        self.reference_build = {"artefacts": "", "compiler": ""}
        """Build of a problem whose reference compiles; empty for most problems."""
        self.afterwards = contextlib.ExitStack()
        """Work that is done after the parent has its answer."""

    def _observe(self, problem: Path) -> None:
        """Begin to record the files that a problem's code reads and the programs that it starts."""
        platform.processor()  # starts `uname` once; it is asked for the name of this machine
        folders = (self._config.scratch, self._config.cache, self._config.leases)
        self._observation.begin(problem, [Path(folder) for folder in folders if folder])

    @property
    def reference(self) -> Reference:
        """The reference of the open case."""
        assert self._reference is not None, "a case is open"
        return self._reference

    @property
    def device(self) -> str:
        """`cuda` or `cpu`."""
        return self._config.device

    def other(self, overrides: dict[str, Any]) -> Reference:
        """Return the reference of another case of the problem, made once."""
        key = repr(sorted(overrides.items()))
        if key not in self._others:
            self._others[key] = self._make_reference(overrides)
        return self._others[key]

    def _make_reference(self, overrides: dict[str, Any]) -> Reference:
        other = {} if overrides == self._overrides else overrides
        self._where = ", ".join(f"{name}={value!r}" for name, value in other.items())
        options = self._config.options
        modes: dict[str, Any] = {"allow_tf32": options.allow_tf32, "eval_mode": options.eval_mode, "timed": self.timed}
        return Reference(self._problem, overrides, self.device, report=self.report_step, **modes)

    def derived(self, overrides: dict[str, Any]) -> Reference | None:
        """Make the reference of a shape that the problem does not list; None if it fails or is not finite."""
        try:
            made = self._make_reference(overrides)
            return made if made.is_finite() else None
        except Exception as error:
            if is_of_the_device(error):
                raise
            return None

    def _free_case(self) -> None:
        """Free the open case's device memory; `_open_case` makes its reference again."""
        self.afterwards.close()
        self._reference, self._others = None, {}
        self._end_spare()
        if self._memory is not None:
            backend(self.device).release_cached()
            self._memory.close()
        self._memory = None

    def _open_case(self) -> None:
        """Make the reference of the open case, unless it exists; once more, alone, if memory ran out beside others."""
        while self._reference is None:
            if self._memory is None and self._config.uuid and backend(self.device).has_own_memory:
                backend(self.device).release_cached()  # also memory that an exception's frames held until now
                self._memory = contextlib.ExitStack()
                self._entered(self._memory, self._admission.memory(self._wait, alone=self._is_alone))
            try:
                with self.shared(), self.workers_open():
                    self._report_resumed()
                    self._reference = self._make_reference(self._overrides)
            except NO_ROOM:
                if not self._can_retry_alone():
                    raise

    def _can_retry_alone(self) -> bool:
        """Free the open case, which opens alone from now on; False if it was alone, or has no memory of the device."""
        if self._memory is None or self._is_alone:
            return False
        self._free_case()
        self._is_alone = True
        return True

    def _give_memory_way(self) -> None:
        """Free the open case, and the workers that opened the device, if another process waits for its memory."""
        if self._memory is None or not self._admission.is_memory_wanted():
            return
        self._free_case()
        compilers = [worker.compiler for worker in self._ahead]
        self._start_ahead([])
        self._start_ahead(compilers)

    @contextlib.contextmanager
    def shared(self) -> Iterator[None]:
        """Use the device beside others, for verifying; `give_way` is called between two checks."""
        if not self._config.uuid:
            yield
            return
        with contextlib.ExitStack() as lease:
            self._entered(lease, self._admission.shared(self._wait))
            self._lease = lease
            try:
                yield
            finally:
                self._lease = None

    def give_way(self, candidate: Candidate) -> None:
        """Let processes that wait to time go first; called within `shared`, while no call runs."""
        if self._lease is None or not self._admission.is_wanted():
            return
        for worker in (*self._ahead[:1], *([self._spare] if self._spare is not None else [])):
            worker.settle()
        if not candidate.has_ended:
            candidate.pause()
        backend(self.device).synchronize()
        self._lease.close()
        self._entered(self._lease, self._admission.shared(self._wait))
        self._report_resumed()

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        """Use the device alone, for timing."""
        with contextlib.ExitStack() as lease:
            if self._config.uuid:
                self._entered(lease, self._admission.exclusive(self._wait))
            yield

    def _entered(self, stack: contextlib.ExitStack, admitted: contextlib.AbstractContextManager[None]) -> None:
        """Enter a context for which others may have to end first; count the waiting time."""
        if self._opens is not None:
            self._opens.join()  # it holds the lock, and a process may hold one only
        began = time.monotonic()
        try:
            stack.enter_context(admitted)
        finally:
            if self._is_waiting:
                self._waited_s += time.monotonic() - began

    @property
    def _admission(self) -> Admission:
        return Admission(uuid=self._config.uuid, signature=self._config.holder, folder=Path(self._config.leases))

    @property
    def _wait(self) -> Wait:
        return Wait(on_wait=lambda holder: self.progress(stage="wait", holder=holder), again_s=HEARTBEAT_S)

    def progress(self, **fields: Any) -> None:
        """Report the stage of the present request to the parent."""
        self._problem_time.note(None)
        self._is_waiting = fields["stage"] == "wait"
        if not self._is_waiting:
            self._stage = fields["stage"]
        self._channel.send({"progress": True, "n": self._number, **fields})

    def report_step(self, step: problems.Step) -> None:
        """Report the next step of the problem's own code to the parent: each step has its own time limit."""
        self._problem_time.note(step)
        self._channel.send({"progress": True, "n": self._number, "step": step, "where": self._where})

    def constructing(self, spec: SolutionSpec) -> contextlib.AbstractContextManager[None]:
        """Construct a solution in a worker inside a `with` block; a built-in one takes the problem's time."""
        return problems.during(problems.Step.CONSTRUCT, self.report_step) if spec.builtin else contextlib.nullcontext()

    def deadline(self, left_s: float | None) -> Deadline | None:
        """Return a solution's deadline, if any; the problem's own code and waits for the device do not count."""

        def excused_s() -> float:
            return self._problem_time.seconds + self._waited_s

        def clock() -> float | None:
            return None if self._problem_time.is_running else time.monotonic() - excused_s()

        if left_s is None:
            return None
        return Deadline(limit_s=left_s, at_s=time.monotonic() - excused_s() + left_s, clock=clock)

    def _report_resumed(self) -> None:
        """Report to the parent that the stage continues, if it got a report of waiting."""
        if self._is_waiting:
            self.progress(stage=self._stage)

    def _start_ahead(self, compilers: list[str]) -> None:
        """Start a worker for each of the next solutions, in this order, and end all others."""
        kept = 0
        while kept < len(self._ahead) and [self._ahead[kept].compiler] == compilers[kept : kept + 1]:
            kept += 1
        for worker in self._ahead[kept:]:
            worker.kill()
        self._ahead[kept:] = [self._start_worker(compiler) for compiler in compilers[kept:]]

    def _start_worker(self, compiler: str) -> WorkerProcess:
        with self._observation.apart():
            self._workers += 1
            return WorkerProcess(self._config, self._nursery, self._workers, compiler=compiler)

    def fresh_worker(self, compiler: str) -> WorkerProcess:
        """Return a worker that has loaded no solution yet."""
        if [worker.compiler for worker in self._ahead[:1]] != [compiler]:
            self._start_ahead([compiler])
        return self._watched(self._ahead.pop(0))

    def _watched(self, worker: WorkerProcess) -> WorkerProcess:
        worker.watch_memory(memory_limit_bytes(self._config.case_bytes))
        return worker

    @contextlib.contextmanager
    def workers_open(self, *, reference: bool = False) -> Iterator[None]:
        """Let the next worker, and the reference's, open a GPU inside a `with` block, which ends after they have.

        This disturbs processes that time there. While a solution is judged, only a ready worker is asked: imports take
        seconds. A worker that fails is killed.
        """
        queues_calls = backend(self.device).queues_calls
        asked = [worker for worker in self._ahead[:1] if self._reference is None or worker.is_ready]
        asked = [*asked, *([self._reference_worker()] if reference else [])] if queues_calls else []
        for worker in asked:
            worker.open(self._config.options.mode, queues_calls=True)
        try:
            yield
        finally:  # also after an early refusal: the device is shared only until the block ends
            for worker in asked:
                if worker in (self._spare, *self._ahead):  # else it is the solution's by now
                    try:
                        worker.wait(SETUP_TIMEOUT_S)
                    except ChildError:
                        worker.kill()
                        self._ahead = [each for each in self._ahead if each is not worker]

    def take_reference_worker(self) -> Candidate:
        """Return a worker that has opened the device and will run the reference's own model; the caller kills it."""
        worker, self._spare = self._reference_worker(), None
        path = str(self._problem)
        known: dict[str, Any] = {"builtin": "eager", "rehearsed": True, "is_reference": True, **self.reference_build}
        spec = SolutionSpec(name="reference", path=path, problem=path, **known)
        candidate = Candidate(spec, self._config, self._watched(worker))
        try:
            candidate.prepare()
        except RefusalError:
            candidate.kill()
            raise
        return candidate

    def _reference_worker(self) -> WorkerProcess:
        """Return the worker that waits for the reference, or start one."""
        if self._spare is None or self._spare.has_ended:
            self._spare = self._start_worker(self.reference_build["compiler"])
        return self._spare

    def _end_spare(self) -> None:
        """End the worker that waits for the reference."""
        if self._spare is not None:
            self._spare.kill()
        self._spare = None
