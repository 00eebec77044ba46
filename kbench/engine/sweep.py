"""One sweep: tasks for a crew, a journal, the files at the end, and the summary."""

import contextlib
import functools
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kbench.core.errors import KbenchError
from kbench.devices import selection
from kbench.engine.crew import Crew, SweepOptions, judged
from kbench.engine.dispatch import Write
from kbench.engine.journal import Header, Journal, Record, per_hour
from kbench.engine.rows import rows_of
from kbench.engine.summary import SweepSummary, summarise
from kbench.engine.task import Finished, SweepEvent, SweepPlanned, Task, TaskVerdict
from kbench.engine.unit import UnitResult
from kbench.sandbox.work_folder import work_folder
from kbench.storage.results import RunWriter

WRITE_EVERY_S = 60.0
"""Chosen. Seconds between two writes of the whole CSV; the journal has every unit at once."""
MakeCrew = Callable[[SweepOptions, Path, Write], Crew]
"""Makes a crew from the options, a temporary folder and the function that writes a unit to the journal."""


@dataclass(slots=True, kw_only=True)
class Sweep:
    """The tasks of a sweep, the results that it has already, and what came of them."""

    tasks: Sequence[Task]
    left: Sequence[Task]
    """The tasks to judge now."""
    known: Mapping[str, tuple[UnitResult, ...]]
    """Results of units that need not be judged again, by the tasks' keys."""
    header: Header
    journal: Path
    resumed: Record | None = None
    reason: str = "interrupted"
    """Why it ended early; empty if it did not."""
    elapsed_s: float = 0.0
    units_per_hour: float | None = None
    _verdicts: dict[str, TaskVerdict] = field(default_factory=dict)
    """By the tasks' keys; a task that is judged again has its earlier verdict until then."""

    def judge(self, options: SweepOptions, make: MakeCrew = Crew) -> Generator[SweepEvent]:
        """Judge the tasks that are left, each on any free lane. A verdict is on the disk before it is yielded.

        Closing the iterator ends the units in flight. Raises MachineError for a journal that cannot be written,
        UsageError for devices of several models or an existing sweep of this name.
        """
        selection.require_alike(options.devices)
        left, before = {task.key for task in self.left}, self.resumed.results if self.resumed is not None else {}
        earlier = [TaskVerdict(task=task, results=before.get(task.key, ()), resumed=True) for task in self.tasks]
        with Journal(self.journal, self.header, resumed=self.resumed) as writer, work_folder() as scratch:
            began = written = time.monotonic()
            self._verdicts = {one.task.key: one for one in earlier if one.is_done}
            kept = [one for one in self.verdicts if one.task.key not in left]
            try:
                yield SweepPlanned(
                    run=self.header.run,
                    tasks=len(self.tasks),
                    resumed=len(kept),
                    devices=tuple(device.name for device in options.devices),
                    lanes=options.lanes,
                    jobs=options.jobs,
                )
                crew = make(options, scratch, functools.partial(self._record, writer))
                for verdict in kept:
                    yield Finished(verdict=verdict)
                with contextlib.closing(judged(crew, longest_first(self.left), self.known)) as events:
                    for event in events:
                        yield event
                        if time.monotonic() - written > WRITE_EVERY_S:
                            self._write()
                            written = time.monotonic()
                self.reason = crew.reason
            except KbenchError as error:
                self.reason = error.message
                raise
            finally:
                writer.close()
                self._write()
                self.units_per_hour = per_hour(writer.units, writer.elapsed_s)
                self.elapsed_s = time.monotonic() - began

    @property
    def verdicts(self) -> list[TaskVerdict]:
        """The verdicts so far, in the order of the tasks: also those that no event has reported."""
        return [self._verdicts[task.key] for task in self.tasks if task.key in self._verdicts]

    def _record(self, writer: Journal, verdict: TaskVerdict) -> None:
        """Write a unit into the journal. Raises MachineError."""
        writer.append(verdict)
        if verdict.is_done:
            self._verdicts[verdict.task.key] = verdict

    def _write(self) -> None:
        """Write the CSV and its samples beside the journal, in the order of the tasks. Raises MachineError."""
        if found := self.verdicts:
            header, writer = self.header, RunWriter(self.journal.parent, self.header.run)
            writer.replace_all(row for verdict in found for row in rows_of(verdict, header.run, header.started_utc))

    def summary(self) -> SweepSummary:
        """Return the summary, also of a sweep that broke off."""
        written = self.journal.with_name(f"{self.header.run}.csv")
        return summarise(
            self.header.run,
            self.verdicts,
            tasks=len(self.tasks),
            elapsed_s=self.elapsed_s,
            units_per_hour=self.units_per_hour,
            csv_path=str(written) if written.exists() else None,
            reason=self.reason,
        )


def longest_first(tasks: Sequence[Task]) -> list[Task]:
    """Return the tasks by the size of their problem's source, largest first; tasks of one problem stay together.

    A task that takes long at the end leaves all lanes but one idle, and whole networks have longer sources than single
    operations. Every fifth file of KernelBench ends 7 % earlier on 12 lanes than in the order of names (computed from
    the seconds that its units took on two H200s).
    """
    return sorted(tasks, key=lambda task: task.problem.path.stat().st_size, reverse=True)
