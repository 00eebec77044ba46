"""What the judge has for its evaluations: the references of the open case, workers, the device."""

import contextlib
import platform
import time
from collections.abc import Iterator
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any, TypeVar

import torch

from kbench.build.extensions import ExtensionBuilds
from kbench.build.observation import Observation
from kbench.children.child import Child
from kbench.children.child_error import ChildError, is_of_the_device
from kbench.children.worker_start import (
    SETUP_TIMEOUT_S,
    Deadline,
    StartedWorker,
    WorkerConfig,
    in_thread,
    memory_limit_bytes,
    start_nursery,
)
from kbench.core.device_room import needed_bytes
from kbench.devices.admission import Admission, Reservation, Wait
from kbench.devices.backend import backend
from kbench.judge.candidate import Candidate
from kbench.judge.load_request import ReferenceBuild, SolutionSpec
from kbench.judge.reference.reference import Reference
from kbench.judge.start import DeviceOpening
from kbench.judge.verify.fp64_errors import rehearse
from kbench.plugins import problem as problems
from kbench.plugins.problem import OwnTime
from kbench.wire.channel import Channel
from kbench.wire.observed import Observed

SMALL_BYTES = 32 << 20
"""Inputs and parameters of a small problem, whose outputs hardly need more than `device_room.QUEUE_BYTES`."""
NO_ROOM = (torch.OutOfMemoryError, MemoryError)
"""Raised where torch, or the driver for shared memory, finds no room on the device."""
HEARTBEAT_S = 5.0
"""While the judge waits for the device, it says so this often, so that the parent knows it is alive."""

Entered = TypeVar("Entered")


class JudgeState:
    """State of the judge between requests: the case that is open, and the workers started ahead."""

    def __init__(
        self, channel: Channel, config: WorkerConfig, nursery: Child | None = None, opens: DeviceOpening | None = None
    ):
        self._channel = channel
        self._config = config
        self._nursery = nursery
        self._number = self._workers = 0
        self._ahead: list[StartedWorker] = []
        self._beside: Candidate | None = None
        """The worker that runs the reference beside the present candidate."""
        self._opening: Future[None] | None = None
        self._opens = opens
        self._is_taken = False
        """Whether the reference ran in its worker, which then is no fresh one."""
        self._spare: StartedWorker | None = None
        """The same for the next one; it has not opened the device."""
        self._reference: Reference | None = None
        self._problem = Path()
        self._overrides: dict[str, Any] = {}
        self._others: dict[str, Reference] = {}
        self._room = contextlib.ExitStack()
        self._reservation: Reservation | None = None
        self._reserved_bytes: int | None = None
        self._least_bytes = 0
        """What the open case is known to need of the device, whatever its shapes say."""
        self._lease: contextlib.ExitStack | None = None
        """Holds the device's lock within `shared`."""
        self._stage = "open"
        self._where = ""
        """Constants of the reference that is made, if they are not those of the open case."""
        self._is_waiting = False
        self._waited_s = 0.0
        """Time in which others had the device, or memory that the open case needs, since the case was asked for."""
        self._own_time = OwnTime()
        self._observation = Observation()
        """Of what the problem's own code reads and starts in this process."""
        ExtensionBuilds(self._observation, lambda: self._observation.need("compiled an extension")).install()
        self._observed = Observed()
        """Of the solution that is judged, in its workers."""
        self.reference_build = ReferenceBuild()
        self.afterwards = contextlib.ExitStack()
        """What is left to do once the parent has its answer."""

    def _observe(self, problem: Path) -> None:
        """Record from now on what a problem's code reads and starts here."""
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
            self._others[key] = self._made(overrides)
        return self._others[key]

    def _made(self, overrides: dict[str, Any]) -> Reference:
        other = {} if overrides == self._overrides else overrides
        self._where = ", ".join(f"{name}={value!r}" for name, value in other.items())
        options = self._config.options
        modes = {"allow_tf32": options.allow_tf32, "eval_mode": options.eval_mode}
        return Reference(self._problem, overrides, self.device, tell=self.tell, **modes)

    def derived(self, overrides: dict[str, Any]) -> Reference | None:
        """Make the reference of a shape that the problem does not list; None where it fails or is not finite."""
        try:
            made = self._made(overrides)
            return made if made.is_finite() else None
        except Exception as error:
            if is_of_the_device(error):
                raise
            return None

    def _put_away(self) -> None:
        """Free what the open case takes of the device; `_bring_out` makes it again."""
        self.afterwards.close()
        self._reference, self._others = None, {}
        self._end_reference_worker()
        if self._reservation is not None:
            backend(self.device).release_cached()
        self._room.close()
        self._reservation = self._reserved_bytes = None

    def _bring_out(self) -> None:
        """Make the reference of the open case, unless it is there, once there is room for it on the device.

        Where a call takes more than was reserved, or memory ran out beside others, the case queues for more.
        """
        while self._reference is None:
            self._reserve()
            try:
                with self.shared(), self.next_worker_opens():
                    self._go_on()
                    made = self._made(self._overrides)
            except NO_ROOM:
                if not self._queues_for_all():
                    raise
                continue
            needs = needed_bytes(made.cost.dram_bytes, made.between_bytes)
            if self._reserved_bytes is not None:
                self._least_bytes = max(self._least_bytes, min(needs, self._capacity_bytes))
            if self._reserved_bytes is None or self._least_bytes <= self._reserved_bytes:
                self._reference = made
            else:
                del made  # before its memory is given back
                self._put_away()

    def _queues_for_all(self) -> bool:
        """Put the open case away and have it need the whole device; False where it has that, or nothing is reserved."""
        if self._reserved_bytes is None or self._reserved_bytes >= self._capacity_bytes:
            return False
        self._put_away()
        self._least_bytes = self._capacity_bytes
        return True

    @property
    def _capacity_bytes(self) -> int:
        return backend(self.device).identify().memory_bytes or 0

    def _reserve(self) -> None:
        if not self._config.uuid or not backend(self.device).has_own_memory:
            return
        backend(self.device).release_cached()  # also of what an exception's frames held until now
        case_bytes = problems.footprint_bytes(self._problem, self._overrides, SMALL_BYTES, self.tell)
        self._reserved_bytes = max(needed_bytes(case_bytes), self._least_bytes)
        capacity_bytes = self._capacity_bytes or self._reserved_bytes
        reservation = self._admission.reserve(self._reserved_bytes, capacity_bytes, self._wait)
        self._reservation = self._entered(self._room, reservation)

    @contextlib.contextmanager
    def shared(self) -> Iterator[None]:
        """Use the device beside others, for verifying; between two checks it is polite to `give_way`."""
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
        """Within `shared`, while no call is under way: let those who wait to time do so first."""
        if self._lease is None or not self._admission.is_wanted():
            return
        if self._opening is not None:
            wait([self._opening])
        for worker in self._ahead[:1]:
            worker.settle()
        with contextlib.nullcontext() if candidate.has_ended else candidate.stopped():
            backend(self.device).synchronize()
            self._lease.close()
            self._entered(self._lease, self._admission.shared(self._wait))
        self._go_on()

    def go_on_opening(self) -> None:
        """Have the first worker open the device as well, and load the judge's own arithmetic meanwhile."""
        worker = self._ahead[0] if self._ahead and backend(self.device).queues_calls else None

        def beside() -> None:
            if worker is not None:
                worker.open(self._config.options.mode, queues_calls=True)

        def rest() -> None:
            with contextlib.suppress(RuntimeError):  # where the device has no room, who needs it is told so
                rehearse(self.device)
            if worker is not None:
                worker.settle()

        if self._opens is not None:
            self._opens.go_on(beside, rest)

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        """Use the device alone, for timing."""
        with contextlib.ExitStack() as lease:
            if self._config.uuid:
                self._entered(lease, self._admission.exclusive(self._wait))
            yield

    def _entered(self, stack: contextlib.ExitStack, admitted: contextlib.AbstractContextManager[Entered]) -> Entered:
        """Enter what others may have to end first; count the time that this takes."""
        if self._opens is not None:
            self._opens.join()
        began = time.monotonic()
        try:
            return stack.enter_context(admitted)
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
        """Tell the parent how far the present request is."""
        self._own_time.note(None)
        self._is_waiting = fields["stage"] == "wait"
        if not self._is_waiting:
            self._stage = fields["stage"]
        self._channel.send({"progress": True, "n": self._number, **fields})

    def tell(self, step: problems.Step) -> None:
        """Tell the parent what the problem's own code does next: each step has its own time limit."""
        self._own_time.note(step)
        self._channel.send({"progress": True, "n": self._number, "step": step, "where": self._where})

    @contextlib.contextmanager
    def constructing(self, spec: SolutionSpec) -> Iterator[None]:
        """Have a worker construct a solution; that takes the problem's time where it is the problem's own `Model`."""
        with problems.during(problems.Step.CONSTRUCT, self.tell) if spec.builtin else contextlib.nullcontext():
            yield

    def deadlines(self, left_s: float | None) -> tuple[Deadline, ...]:
        """Return a solution's deadline, if any; the problem's own code and waits for the device do not count."""

        def excused_s() -> float:
            return self._own_time.seconds + self._waited_s

        def clock() -> float | None:
            return None if self._own_time.is_running else time.monotonic() - excused_s()

        return () if left_s is None else (Deadline(at_s=time.monotonic() - excused_s() + left_s, clock=clock),)

    def _go_on(self) -> None:
        """Tell the parent that what was under way goes on, if it heard of a wait."""
        if self._is_waiting:
            self.progress(stage=self._stage)

    def _expect(self, compilers: list[str]) -> None:
        """Have a worker get ready for each of the solutions that come next, in this order, and for no other."""
        kept = 0
        while kept < len(self._ahead) and [self._ahead[kept].compiler] == compilers[kept : kept + 1]:
            kept += 1
        for worker in self._ahead[kept:]:
            worker.kill()
        self._ahead[kept:] = [self._start_worker(compiler) for compiler in compilers[kept:]]

    def _start_worker(self, compiler: str) -> StartedWorker:
        if self._nursery is None or self._nursery.has_ended:
            with self._observation.apart():
                self._nursery = start_nursery(self._config)
        self._workers += 1
        return StartedWorker(self._config, self._nursery, self._workers, compiler=compiler)

    def fresh_worker(self, compiler: str) -> StartedWorker:
        """Return a worker that has heard of no solution yet."""
        if [worker.compiler for worker in self._ahead[:1]] != [compiler]:
            self._expect([compiler])
        return self._watched(self._ahead.pop(0))

    def _watched(self, worker: StartedWorker) -> StartedWorker:
        worker.child.watch_memory(memory_limit_bytes(self._config.case_bytes))
        return worker

    @contextlib.contextmanager
    def next_worker_opens(self) -> Iterator[None]:
        """Have the worker that comes next open the device meanwhile, which disturbs whoever times there.

        One that cannot makes room for another. Beside a solution only one that is ready is asked: imports take seconds.
        """
        worker = self._ahead[0] if self._ahead and backend(self.device).queues_calls else None
        if worker is None or (self._reference is not None and not worker.is_ready):
            yield
            return
        worker.open(self._config.options.mode, queues_calls=True)
        try:
            yield
        finally:
            if worker in self._ahead:
                try:
                    worker.wait(SETUP_TIMEOUT_S)
                except ChildError:
                    self._ahead.remove(worker)
                    worker.kill()

    @contextlib.contextmanager
    def reference_opens(self, problem: str) -> Iterator[None]:
        """Have the reference's worker open the device meanwhile; on a CPU it would disturb what is timed."""
        if backend(self.device).queues_calls:
            self._open_reference_worker(problem)
            if self._ahead and self._spare is None:
                self._spare = self._start_worker(self.reference_build.compiler)
        try:
            yield
        finally:  # also beside a solution that is refused at once: the device is shared only until then
            if self._opening is not None:
                wait([self._opening])

    def take_reference_worker(self, problem: str) -> Candidate:
        """Return a worker that has opened the device and will run the reference's own model."""
        self._open_reference_worker(problem)
        assert self._beside is not None and self._opening is not None, "just begun"  # noqa: PT018
        self._is_taken = True
        self._opening.result()
        return self._beside

    def _open_reference_worker(self, problem: str) -> None:
        """Have a worker open the device for the reference, unless one is there that was never timed with."""
        if self._beside is not None and not self._beside.has_ended:
            return
        worker, self._spare = self._spare or self._start_worker(self.reference_build.compiler), None
        path, build = str(self._problem), self.reference_build
        spec = SolutionSpec(
            name="reference",
            path=path,
            problem=problem,
            builtin="eager",
            artefacts=build.artefacts,
            compiler=build.compiler,
            rehearsed=True,
            is_reference=True,
        )
        self._beside = Candidate(spec, self._config, self._watched(worker))
        self._opening = in_thread(self._beside.prepare)

    def _end_reference_worker(self, *, unless_fresh: bool = False) -> None:
        opening = self._opening
        # One that could not open the device may have had no room beside the last solution.
        failed = opening is not None and opening.done() and opening.exception() is not None
        if unless_fresh and not self._is_taken and not failed:
            return
        if self._beside is not None:
            self._beside.kill()
        self._beside = self._opening = None
        self._is_taken = False
