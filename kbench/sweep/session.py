"""One sweep on this machine: lanes on devices, builds on processors, a journal, and the files at the end."""

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kbench.core.errors import UsageError
from kbench.core.events import RunOptions
from kbench.devices.selection import DeviceChoice
from kbench.storage import quarantine
from kbench.storage.results import RunWriter
from kbench.storage.settings import cache_dir
from kbench.sweep.crew import Crew, SweepOptions
from kbench.sweep.dispatch import Write
from kbench.sweep.journal import Header, Journal, Record
from kbench.sweep.task import Ended, Finished, SweepEvent, SweepPlanned, Task, TaskVerdict
from kbench.units.unit import UnitResult

WRITE_EVERY_S = 60.0
"""Chosen. The journal has every unit at once; the CSV, which is written as a whole, follows."""


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


class Executor(Protocol):
    """What judges the tasks of a sweep: a Crew on this host, or a Cluster of several."""

    @property
    def reason(self) -> str:
        """Why it ended before all was done; empty where it did not."""
        ...

    def start(self) -> None:
        """Start what judges."""
        ...

    def add(self, tasks: Sequence[Task], known: Mapping[str, tuple[UnitResult, ...]] | None = None) -> None:
        """Have tasks judged, with the results of units that need not be judged again."""
        ...

    def finish(self) -> None:
        """Tell it that nothing more is added."""
        ...

    def events(self) -> Iterator[SweepEvent]:
        """Yield what happens, until all is done."""
        ...

    def stop(self) -> None:
        """End everything that was started."""
        ...


MakeExecutor = Callable[[SweepOptions, Path, Write], Executor]
"""Options, a folder for files of the sweep's time, and what writes a unit to the journal."""


def on_this_host(options: SweepOptions, scratch: Path, write: Write) -> Executor:
    """Judge on devices of this host."""
    return Crew(options, scratch, None, write)


def sweep(work: Work, options: SweepOptions, make: MakeExecutor = on_this_host) -> Iterator[SweepEvent]:
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
        crew = make(options, scratch, journal.append)
        stack.callback(crew.stop)
        written = time.monotonic()
        reason = ""
        try:
            if work.left:
                crew.start()
                crew.add(work.left, known)
            crew.finish()
            for event in crew.events():
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
        self._save = options.save

    def write(self, verdicts: Mapping[str, TaskVerdict]) -> Path | None:
        """Write the rows of all verdicts, in the order of the tasks. Raises MachineError."""
        found = [verdicts[key] for key in self._order if key in verdicts]
        if not self._save or not found:
            return None
        header, writer = self._header, RunWriter(self._folder, self._header.run)
        groups = [verdict.rows(header.run, header.started_utc) for verdict in found]
        return writer.replace_all(groups)
