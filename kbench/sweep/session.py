"""One sweep on this machine: lanes on devices, builds on processors, a journal, and the files at the end."""

import contextlib
import os
import queue
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kbench.core.errors import MachineError, UsageError
from kbench.core.events import RunOptions
from kbench.devices import peaks
from kbench.devices.admission import Admission
from kbench.devices.backend import backend
from kbench.devices.selection import DeviceChoice
from kbench.host import nursery_process
from kbench.storage import quarantine
from kbench.storage.results import RunWriter
from kbench.storage.settings import cache_dir
from kbench.sweep.builds import Builds, DerivedShapes
from kbench.sweep.dispatch import Dispatcher
from kbench.sweep.guard import Guard
from kbench.sweep.journal import Header, Journal, Record
from kbench.sweep.lane import Judging, Lane, Post
from kbench.sweep.task import Budgets, Ended, Finished, Halt, SweepEvent, SweepPlanned, Task, TaskVerdict
from kbench.units.evaluator import Evaluator
from kbench.units.unit import UnitResult

LANES = {"cuda": 3, "cpu": 1}
"""Of one device, where calls are timed: one times while others open and verify. On a CPU these would disturb it."""
WRITE_EVERY_S = 60.0
"""Chosen. The journal has every unit at once; the CSV, which is written as a whole, follows."""
TICK_S = 0.2

MakeJudging = Callable[[DeviceChoice, Guard, Path], Judging]


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepOptions:
    """What a sweep is told beyond what each of its runs is told."""

    run: RunOptions
    devices: tuple[DeviceChoice, ...]
    rung: int
    lanes: int
    """Of each device."""
    jobs: int
    budgets: Budgets = field(default_factory=Budgets)
    halt: Halt = field(default_factory=Halt)


def default_lanes(kind: str, *, timed: bool) -> int:
    """Say how many judges a device has at a time; where nothing is timed, a CPU has one for two processors."""
    if not backend(kind).queues_calls and not timed:
        return max(1, default_jobs() // 2)
    return LANES[kind]


def default_jobs() -> int:
    """Say how many solutions are built at a time."""
    return max(1, len(os.sched_getaffinity(0)))


def require_alike(devices: Sequence[DeviceChoice]) -> None:
    """Raise UsageError for devices of several models, whose times do not belong in one summary."""
    models = sorted({device.name for device in devices})
    if len(models) > 1:
        raise UsageError(f"devices of several models: {', '.join(models)}", "one sweep for each: `--devices 0`")


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a sweep is to do, and what it knows already."""

    tasks: Sequence[Task]
    left: Sequence[Task]
    """Those of the tasks that are to be judged now."""
    known: Mapping[str, tuple[UnitResult, ...]]
    """Results of units that need not be judged again, by the tasks' keys."""
    header: Header
    journal: Path
    resumed: Record | None = None
    notes: tuple[str, ...] = ()


def sweep(work: Work, options: SweepOptions, make: MakeJudging | None = None) -> Iterator[SweepEvent]:
    """Judge what is left, each task on whichever lane is free; every told verdict is on the disk.

    Whoever stops listening ends what is in flight.

    Raises:
        MachineError: a quarantined device, or a journal that cannot be written.
        UsageError: devices of several models, or a sweep of this name that exists.
    """
    tasks, known, header = work.tasks, work.known, work.header
    require_alike(options.devices)
    for device in options.devices:
        quarantine.refuse(cache_dir(), device.uuid)
    began = time.monotonic()
    left = {task.key for task in work.left}
    done = [task for task in tasks if task.key not in left and known.get(task.key)]
    verdicts = {task.key: TaskVerdict(task=task, results=tuple(known[task.key]), resumed=True) for task in done}
    with contextlib.ExitStack() as stack:
        journal = stack.enter_context(Journal(work.journal, header, resumed=work.resumed))
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kbench-", ignore_cleanup_errors=True)))
        names = tuple(device.name for device in options.devices)
        yield SweepPlanned(
            run=header.run,
            tasks=len(tasks),
            resumed=len(verdicts),
            devices=names,
            lanes=options.lanes,
            jobs=options.jobs,
            notes=work.notes,
        )
        for verdict in verdicts.values():
            yield Finished(verdict=verdict, device="", elapsed_s=0.0)
        files = Files(header, work.journal, tasks, options.run)
        crew = Crew(work.left, known, options, journal, scratch, make)
        stack.callback(crew.stop)
        written = time.monotonic()
        reason = ""
        try:
            for event in crew.work():
                if isinstance(event, Finished):
                    verdicts[event.verdict.task.key] = event.verdict
                    if time.monotonic() - written > WRITE_EVERY_S:
                        files.write(verdicts)
                        written = time.monotonic()
                yield event
            reason = crew.reason
        finally:
            crew.stop()
            csv_path = files.write(verdicts)
        yield Ended(
            csv_path=str(csv_path) if csv_path is not None else None,
            left=len(tasks) - len(verdicts),
            reason=reason,
            elapsed_s=time.monotonic() - began,
        )


class Files:
    """The CSV and its samples, beside the journal and of the same name, made anew from what is known."""

    def __init__(self, header: Header, journal: Path, tasks: Sequence[Task], options: RunOptions):
        self._header = header
        self._folder = journal.parent
        self._order = [task.key for task in tasks]
        self._options = options

    def write(self, verdicts: Mapping[str, TaskVerdict]) -> Path | None:
        """Write the rows of all verdicts, in the order of the tasks. Raises MachineError."""
        found = [verdicts[key] for key in self._order if key in verdicts]
        if not self._options.save or not found:
            return None
        header, writer = self._header, RunWriter(self._folder, self._header.run)
        groups = [verdict.rows(header.run, header.started_utc, self._options) for verdict in found]
        return writer.replace_all(groups)


class Crew:
    """The threads of a sweep: lanes and builders. What they tell comes out of `work`."""

    def __init__(
        self,
        tasks: Sequence[Task],
        known: Mapping[str, tuple[UnitResult, ...]],
        options: SweepOptions,
        journal: Journal,
        scratch: Path,
        make: MakeJudging | None,
    ):
        self._tasks = tasks
        self._options = options
        self._scratch = scratch
        self._make = make or self._evaluator
        self._news: queue.SimpleQueue[SweepEvent | BaseException | None] = queue.SimpleQueue()
        self._closing = contextlib.ExitStack()
        self._threads: list[threading.Thread] = []
        lanes = options.lanes * len(options.devices)
        write = journal.append
        self._dispatcher = Dispatcher(tasks, known, options.run, halt=options.halt, write=write, lanes=lanes)
        self._guards = [Guard(device, cache_dir()) for device in options.devices]
        self._judging: list[Judging] = []
        self.reason = ""
        """Why it ended before all was done."""

    def work(self) -> Iterator[SweepEvent]:
        """Judge everything; yields what the threads tell. Raises what a thread raised."""
        if not self._tasks:
            return
        options, device = self._options, self._options.devices[0]
        if not options.run.verify_only and backend(device.kind).has_own_memory and options.run.wait_for_device:
            self._measure_peaks()
        self._closing.enter_context(nursery_process.nursery(nursery_process.OF_MANY_JUDGES))
        shapes = DerivedShapes(self._evaluator(device, self._guards[0], self._scratch), options.run)
        self._closing.callback(shapes.close)
        builds = Builds(
            options.run,
            device,
            options.rung,
            self._scratch,
            self._dispatcher,
            shapes,
            jobs=options.jobs,
            tell=self._tell_of_builds,
        )
        self._closing.callback(builds.stop)
        for guard in self._guards:
            post = Post(guard, self._news.put)
            for _ in range(options.lanes):
                judging = self._make(guard.device, guard, self._scratch)
                self._judging.append(judging)
                lane = Lane(
                    judging, post, self._dispatcher, builds, shapes, options.run, options.budgets, self._news.put
                )
                self._threads.append(threading.Thread(target=self._serve, args=(lane,), daemon=True))
        for thread in self._threads:
            thread.start()
        builds.start(self._tasks)
        yield from self._listen()
        self.reason = self._dispatcher.why_stopped() or self._nobody_left()

    def stop(self) -> None:
        """End what is in flight, and everything that was started."""
        self._dispatcher.stop("interrupted")
        deadline = time.monotonic() + 10.0
        while any(thread.is_alive() for thread in self._threads) and time.monotonic() < deadline:
            for judging in self._judging:
                judging.interrupt()
            for thread in self._threads:
                thread.join(TICK_S)
        self._closing.close()

    def _listen(self) -> Iterator[SweepEvent]:
        running = len(self._threads)
        while running:
            news = self._news.get()
            match news:
                case None:
                    running -= 1
                case BaseException():
                    raise news
                case _:
                    yield news

    def _serve(self, lane: Lane) -> None:
        try:
            lane.serve()
        except BaseException as error:  # noqa: BLE001 - raised again by the thread that asked
            self._news.put(error)
        self._news.put(None)

    def _tell_of_builds(self, told: TaskVerdict | BaseException | None) -> None:
        if isinstance(told, TaskVerdict):
            self._news.put(Finished(verdict=told, device="", elapsed_s=sum(told.stage_s.values())))
        elif told is not None:
            self._news.put(told)

    def _nobody_left(self) -> str:
        marks = [guard.quarantine for guard in self._guards]
        if not self._dispatcher.left or not all(marks):
            return ""
        return "no device is left: " + "; ".join(mark.message for mark in marks if mark is not None)

    def _evaluator(self, device: DeviceChoice, guard: Guard, scratch: Path) -> Evaluator:
        return Evaluator(device, self._options.rung, scratch, guard)

    def _measure_peaks(self) -> None:
        """Measure what each device can do where that is not known; rows go without where it cannot be."""
        for device in self._options.devices:
            if peaks.load_peaks(device, cache_dir()) is None:
                with contextlib.suppress(MachineError), Admission(uuid=device.uuid).exclusive():
                    peaks.refresh_peaks(device, cache_dir())
