"""One sweep on this machine: lanes on devices, builds on processors, a journal, and the files at the end."""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kbench.core.events import RunOptions
from kbench.devices import selection
from kbench.engine import journal
from kbench.engine.crew import Crew, Executor, SweepOptions, judged
from kbench.engine.dispatch import Write
from kbench.engine.journal import Header, Journal, Record
from kbench.engine.task import Ended, Finished, SweepEvent, SweepPlanned, Task, TaskVerdict
from kbench.engine.unit import UnitResult
from kbench.host.work_folder import work_folder
from kbench.storage import quarantine
from kbench.storage.results import RunWriter
from kbench.storage.settings import cache_dir

WRITE_EVERY_S = 60.0
"""Chosen. Seconds between two writes of the whole CSV; the journal has every unit at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The tasks of a sweep, and the results that it has already."""

    tasks: Sequence[Task]
    left: Sequence[Task]
    """The tasks to judge now."""
    known: Mapping[str, tuple[UnitResult, ...]]
    """Results of units that need not be judged again, by the tasks' keys."""
    header: Header
    journal: Path
    resumed: Record | None = None
    notes: tuple[str, ...] = ()


MakeExecutor = Callable[[SweepOptions, Path, Write], Executor]
"""Makes an Executor from the options, a temporary folder and the function that writes a unit to the journal."""


def sweep(work: Work, options: SweepOptions, make: MakeExecutor = Crew) -> Iterator[SweepEvent]:
    """Judge the remaining tasks, each on any free lane. A verdict is on the disk before it is yielded.

    Closing the iterator ends the units in flight. Raises MachineError for a quarantined device or a journal that cannot
    be written, UsageError for devices of several models or an existing sweep of this name.
    """
    tasks, known, header = work.tasks, work.known, work.header
    selection.require_alike(options.devices)
    for device in options.devices:
        quarantine.refuse(cache_dir(), device.uuid)
    began = time.monotonic()
    left = {task.key for task in work.left}
    done = [task for task in tasks if task.key not in left and known.get(task.key)]
    verdicts = {task.key: TaskVerdict(task=task, results=known[task.key], resumed=True) for task in done}
    with contextlib.ExitStack() as stack:
        writer = stack.enter_context(Journal(work.journal, header, resumed=work.resumed))
        scratch = stack.enter_context(work_folder())
        yield SweepPlanned(
            run=header.run,
            tasks=len(tasks),
            resumed=len(verdicts),
            devices=tuple(device.name for device in options.devices),
            lanes=options.lanes,
            jobs=options.jobs,
        )
        for verdict in verdicts.values():
            yield Finished(verdict=verdict, elapsed_s=0.0)
        crew = make(options, scratch, writer.append)
        written = time.monotonic()
        try:
            with contextlib.closing(judged(crew, longest_first(work.left), known)) as events:
                for event in events:
                    if isinstance(event, Finished):
                        verdicts[event.verdict.task.key] = event.verdict
                        if time.monotonic() - written > WRITE_EVERY_S:
                            write_files(work, options.run, verdicts)
                            written = time.monotonic()
                    yield event
        finally:
            writer.close()
            verdicts = recorded(work, journal.read(work.journal))
            csv_path = write_files(work, options.run, verdicts)
        yield Ended(
            csv_path=str(csv_path) if csv_path is not None else None,
            reason=crew.reason,
            elapsed_s=time.monotonic() - began,
        )


def longest_first(tasks: Sequence[Task]) -> list[Task]:
    """Return the tasks by the size of their problem's source, largest first; tasks of one problem stay together.

    A task that takes long at the end leaves all lanes but one idle, and whole networks have longer sources than single
    operations. Every fifth file of KernelBench ends 7 % earlier on 12 lanes than in the order of names (computed from
    the seconds that its units took on two H200s).
    """
    return sorted(tasks, key=lambda task: task.problem.path.stat().st_size, reverse=True)


def recorded(work: Work, record: Record) -> dict[str, TaskVerdict]:
    """Return by key the verdicts that a journal holds of these tasks, of which the events may lack some."""
    fresh, results = record.fresh, record.results
    found = (
        TaskVerdict(task=task, results=results.get(task.key, ()), resumed=task.key not in fresh) for task in work.tasks
    )
    return {verdict.task.key: verdict for verdict in found if verdict.is_done}


def write_files(work: Work, options: RunOptions, verdicts: Mapping[str, TaskVerdict]) -> Path | None:
    """Write the CSV and its samples beside the journal, in the order of the tasks. Raises MachineError."""
    found = [verdicts[task.key] for task in work.tasks if task.key in verdicts]
    if not options.save or not found:
        return None
    header, writer = work.header, RunWriter(work.journal.parent, work.header.run)
    return writer.replace_all(row for verdict in found for row in verdict.rows(header.run, header.started_utc))
