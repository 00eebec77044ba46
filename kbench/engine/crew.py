"""The threads of a sweep or of a pool that stays warm: lanes on devices and builders on processors."""

import contextlib
import queue
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

from kbench.core.errors import MachineError
from kbench.core.events import RunOptions, Waiting
from kbench.devices import peaks
from kbench.devices.admission import signature
from kbench.devices.backend import backend
from kbench.devices.selection import DeviceChoice
from kbench.engine.builds import TICK_S, Builds, default_jobs
from kbench.engine.derived_shapes import DerivedShapes
from kbench.engine.dispatch import Dispatcher, Write
from kbench.engine.evaluator import Evaluator
from kbench.engine.guard import Guard
from kbench.engine.ladder import BATCH
from kbench.engine.lane import Lane
from kbench.engine.task import SweepEvent, Task
from kbench.engine.unit import UnitResult
from kbench.host import nursery_process
from kbench.host.context import RunContext
from kbench.sandbox.rungs import Rung
from kbench.storage.settings import cache_dir

LANES = {"cuda": 4, "cpu": 1}
"""For one device that times: one lane times while others open and verify. On a CPU they would disturb it."""

MakeEvaluator = Callable[[DeviceChoice, Guard, Path], Evaluator]
Preparation = Callable[[Lane, Builds, Sequence[Task]], None]
"""Work of the only lane of a run before its first unit, builds included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepOptions:
    """Options of a sweep beside those of its runs."""

    run: RunOptions
    devices: tuple[DeviceChoice, ...]
    rung: int
    lanes: int
    """Number of judges on each device."""
    jobs: int


def default_lanes(kind: str, *, timed: bool) -> int:
    """Return the number of judges per device; without timing, a CPU has one for two processors."""
    if not backend(kind).queues_calls and not timed:
        return max(1, default_jobs() // 2)
    return LANES[kind]


class Crew:
    """Lanes and builders. `events` yields their events until `finish` was called and all tasks are done."""

    def __init__(
        self,
        options: SweepOptions,
        scratch: Path,
        write: Write,
        make: MakeEvaluator | None = None,
        opening: Preparation | None = None,
    ):
        self._options = options
        self._scratch = scratch
        self._opening = opening
        self._asked: Future[Sequence[Task]] = Future()
        self.reason = "interrupted"
        """Why it ended early, once `events` has ended; empty if it did not."""
        self._make = make or self._evaluator
        self._news: queue.SimpleQueue[SweepEvent | BaseException | None] = queue.SimpleQueue()
        self._closing = contextlib.ExitStack()
        self._threads: list[threading.Thread] = []
        all_lanes = options.lanes * len(options.devices)
        batch = BATCH if opening is None else sys.maxsize
        self._dispatcher = Dispatcher(write=write, lanes=all_lanes, batch=batch)
        self._guards: list[Guard] = []

    def start(self) -> None:
        """Start the nursery, lanes and builders; they wait for tasks."""
        options, device, is_run = self._options, self._options.devices[0], self._opening is not None
        if options.run.wait_for_device and not options.run.verify_only:
            for each in options.devices:
                with contextlib.suppress(MachineError):  # rows then have no limit
                    peaks.known_or_measured(each, cache_dir())
        self._guards = [Guard(device, self._report) for device in options.devices]
        self._closing.enter_context(nursery_process.nursery())
        own = None if is_run else self._evaluator(device, self._guards[0], self._scratch)
        shapes = DerivedShapes(own)
        self._closing.callback(shapes.close)
        context = RunContext(options=options.run, device=device, rung=options.rung, scratch=self._scratch)
        self._builds = Builds(
            context, self._dispatcher, shapes, jobs=options.jobs, report=self._news.put, beside_lanes=not is_run
        )
        self._closing.callback(self._builds.stop)
        isolation = Rung(options.rung).name.lower()
        for guard in self._guards * options.lanes:
            judging = self._make(guard.device, guard, self._scratch)
            lane = Lane(judging, guard, self._dispatcher, shapes, is_run=is_run, isolation=isolation)
            self._threads.append(threading.Thread(target=self._serve, args=(lane,), daemon=True))
        for thread in self._threads:
            thread.start()

    def add(self, tasks: Sequence[Task], known: Mapping[str, tuple[UnitResult, ...]] | None = None) -> None:
        """Queue tasks; `known` has the results of units that are not judged again."""
        self._dispatcher.add(tasks, known)
        if self._opening is None:
            self._builds.start(tasks)
        else:
            self._asked.set_result(tasks)

    def finish(self) -> None:
        """Declare that no more tasks are added."""
        self._dispatcher.finish()

    def events(self) -> Iterator[SweepEvent]:
        """Yield the events of the threads until all have ended. Raises what a thread raised."""
        running = len(self._threads)
        while running:
            match self._news.get():
                case None:
                    running -= 1
                case BaseException() as error:
                    raise error
                case news:
                    yield news
        gone = [guard.gone for guard in self._guards]
        nobody = self._dispatcher.left and all(gone)
        self.reason = self._dispatcher.why_stopped() or (f"no device is left: {'; '.join(gone)}" if nobody else "")

    def stop(self) -> None:
        """End all units in flight and all processes."""
        self._dispatcher.stop("interrupted")
        if self._opening is not None and self._threads:
            if not self._asked.done():
                self._asked.set_result(())
            self._builds.stop()  # its lane waits for them
        deadline = time.monotonic() + 10.0
        while any(thread.is_alive() for thread in self._threads) and time.monotonic() < deadline:
            for guard in self._guards:
                guard.interrupt()
            for thread in self._threads:
                thread.join(TICK_S)
        self._closing.close()

    def _report(self, event: SweepEvent) -> None:
        """Pass on an event of a lane, unless it waits for another lane."""
        if not (isinstance(event, Waiting) and event.holder.startswith(signature())):
            self._news.put(event)

    def _evaluator(self, device: DeviceChoice, guard: Guard, scratch: Path) -> Evaluator:
        return Evaluator(device, self._options.rung, scratch, guard)

    def _serve(self, lane: Lane) -> None:
        try:
            if self._opening is not None and (tasks := self._asked.result()):
                self._opening(lane, self._builds, tasks)
            lane.serve()
        except BaseException as error:  # noqa: BLE001 - raised again by the thread that asked
            self._news.put(error)
        self._news.put(None)


def judged(crew: Crew, tasks: Sequence[Task], known: Mapping[str, tuple[UnitResult, ...]]) -> Generator[SweepEvent]:
    """Have a crew judge tasks; yield its events, and end its processes at the end."""
    try:
        if tasks:
            crew.start()
            crew.add(tasks, known)
        crew.finish()
        yield from crew.events()
    finally:
        crew.stop()
