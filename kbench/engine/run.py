"""`run` and `verify`: a sweep with one problem and one lane, whose rows are on the disk as soon as they are known."""

import contextlib
import functools
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import wait
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from kbench.build import manifest
from kbench.catalog import case_selection, registry
from kbench.catalog.registry import Entry
from kbench.core.errors import MachineError, UsageError
from kbench.core.events import (
    REFERENCE_STAGES,
    Event,
    Judged,
    LargeCases,
    Planned,
    RunOptions,
    Saved,
    StageFinished,
    StageStarted,
)
from kbench.core.forecast import Forecast, large_forecasts
from kbench.core.model import Case, Environment, Finding, FindingKind, ResultRow, Status
from kbench.core.timed import FORWARD, timed_of
from kbench.devices import monitor, selection
from kbench.devices.admission import Admission
from kbench.devices.backend import backend
from kbench.engine.builds import Builds, default_jobs
from kbench.engine.crew import Crew, SweepOptions, judged
from kbench.engine.evaluator import Evaluator
from kbench.engine.journal import Header, Journal, Record
from kbench.engine.ladder import unfinished
from kbench.engine.lane import Lane
from kbench.engine.options import fit_to
from kbench.engine.plan import tasks_of
from kbench.engine.rows import rows_of
from kbench.engine.summary import judged_of
from kbench.engine.task import Finished, Task, TaskVerdict
from kbench.engine.unit import UnitResult
from kbench.host import nursery_process, sanitizer
from kbench.host.context import RunContext
from kbench.sandbox import rung_probe, rungs
from kbench.sandbox.work_folder import work_folder
from kbench.storage.details import last_duration_s
from kbench.storage.journal_file import SUFFIX
from kbench.storage.results import Run, RunWriter, read_run
from kbench.storage.settings import cache_dir

PROCESSORS_EACH = 2
"""Processors for each build: a compiler and its linker, or Python and what it compiles."""


def run(
    problem: Entry,
    solutions: Sequence[Entry],
    options: RunOptions,
    *,
    arguments: Mapping[str, Any] = MappingProxyType({}),
    resumed: Record | None = None,
) -> Generator[Event]:
    """Judge solutions of a problem, case by case; events are yielded once rows are on the disk.

    It keeps a journal with its `arguments` until all is judged, and goes on with the results of a `resumed` one. Raises
    UsageError for an unknown case or constant, or a mode that the device lacks; MachineError for a missing
    device; NothingSelectedError where no case matches; PluginError for a problem that cannot run.
    """
    device = selection.choose(options.device)
    options, solutions = fit_to(options, device), registry.with_unique_names(solutions)
    sanitizer.require(options, device)
    cases = case_selection.select(problem, options, backend(device.kind).preferred_cases)
    tasks = tasks_of(problem, solutions, cases, options, device)
    with contextlib.ExitStack() as stack:
        stack.enter_context(nursery_process.nursery())  # imports torch while the sandbox is tried
        rung = sandbox_rung(options, device.kind)
        yield Planned(
            problem=problem.name,
            solutions=tuple(entry.name for entry in solutions),
            cases=cases,
            device=device.kind,
            processes=1 if options.verify_only else options.processes,
        )
        scratch = stack.enter_context(work_folder())
        files = stack.enter_context(run_files(problem, solutions, options, scratch, arguments, resumed))
        csv_path = str(files.csv_path) if options.save else None
        yield Saved(csv_path=csv_path, environment=None)
        left, known = unfinished(tasks, resumed.results if resumed is not None else {})
        yield from (files.judged(verdict) for verdict in files.restore(tasks, known) if verdict.task not in left)
        context = RunContext(options=options, device=device, rung=rung, scratch=scratch)
        asked = SweepOptions(
            run=options,
            devices=(device,),
            rung=rung,
            lanes=1,
            jobs=max(1, default_jobs() // PROCESSORS_EACH),
        )
        crew = Crew(asked, scratch, files.write, opening=functools.partial(opened, context, other_processes(context)))
        with contextlib.closing(judged(crew, left, known)) as events:
            for event in events:
                if isinstance(event, Finished):
                    yield files.judged(event.verdict)
                elif isinstance(event, Event):
                    yield event
        if crew.reason:
            raise MachineError(crew.reason, "`kbench doctor` looks for what is wrong with it")
        files.end()
        yield Saved(csv_path=csv_path, environment=files.environment)


def saved_run(problem: Entry, solutions: Sequence[Entry], options: RunOptions, watch: Callable[[Event], None]) -> Run:
    """Judge solutions in a run of their own that leaves no files, and return it; `watch` sees its events."""
    with work_folder() as folder:
        options = replace(options, results_dir=folder, name="run")
        with contextlib.closing(run(problem, solutions, options)) as events:
            for event in events:
                watch(event)
        return read_run(folder / "run.csv")


def sandbox_rung(options: RunOptions, device: str) -> int:
    """Return the highest rung that works here, 0 if trusted. Raises MachineError or UsageError (`require_sandbox`)."""
    if options.trusted and options.require_sandbox:
        raise UsageError("`trusted` runs without a sandbox, and one is required", "leave out one of them")
    if options.trusted:
        return 0
    rung = rung_probe.reached(device, cache_dir())
    if options.require_sandbox and rung is rungs.Rung.NONE:
        raise MachineError("no sandbox works on this machine", "`kbench doctor` says what is missing")
    return int(rung)


def other_processes(context: RunContext) -> tuple[Finding, ...]:
    """Name other processes on the device of a run that times, unless they are kbench's, which take turns with it."""
    device = context.device
    if not context.options.wait_for_device or context.options.verify_only:
        return ()
    found = monitor.foreign_processes(device)
    if not found or Admission(uuid=device.uuid).is_in_use():
        return ()
    message = f"other processes computed on the device when the run began: {', '.join(found)}"
    return (Finding(code="interference", kind=FindingKind.TIMING, message=message),)


@contextlib.contextmanager
def run_files(
    problem: Entry,
    solutions: Sequence[Entry],
    options: RunOptions,
    scratch: Path,
    arguments: Mapping[str, Any],
    resumed: Record | None,
) -> "Iterator[RunFiles]":
    """Open the files of a run for a `with` block: those of a resumed one, or new ones; in `scratch` if not saved."""
    name = options.name if resumed is None else resumed.header.run
    folder, name = (options.results_dir, name) if options.save else (scratch, name or "unsaved")
    names = [entry.name for entry in solutions]
    with RunWriter(folder, name, problem=problem.name, solutions=names, again=resumed is not None) as writer:
        run, header = writer.csv_path.stem, None if resumed is None else resumed.header
        if header is None:
            command, now = "verify" if options.verify_only else "run", datetime.now(UTC)
            started_utc = now.isoformat(timespec="seconds")
            header = Header(run=run, started_utc=started_utc, arguments=dict(arguments), command=command)
        with Journal(folder / f"{run}{SUFFIX}", header, resumed=resumed) as journal:
            files = RunFiles(writer, journal, header)
            try:
                yield files
            finally:
                files.drop_if_empty()


class RunFiles:
    """The files of a run: rows as they become known, and a journal until all is judged."""

    def __init__(self, writer: RunWriter, journal: Journal, header: Header):
        self._writer, self._journal, self._header = writer, journal, header
        self._standing: dict[str, TaskVerdict] = {}
        self._writing = threading.Lock()  # the lane writes its units while events are read
        self.csv_path = writer.csv_path
        self.environment: Environment | None = None

    def write(self, verdict: TaskVerdict) -> None:
        """Write the last unit of a task. Raises MachineError."""
        self._journal.append(verdict)
        self._put(verdict, from_process=len(verdict.results) - 1)

    def restore(self, tasks: Sequence[Task], known: Mapping[str, tuple[UnitResult, ...]]) -> list[TaskVerdict]:
        """Write the rows of the results that are kept of a broken-off run; return what its tasks come to."""
        found = [TaskVerdict(task=task, results=known[task.key], resumed=True) for task in tasks if known[task.key]]
        for verdict in found:
            self._put(verdict)
        return found

    def _put(self, verdict: TaskVerdict, from_process: int = 0) -> tuple[ResultRow, ...]:
        """Write the rows of a task as its processes so far make them, in place of earlier ones; return them."""
        rows, last = rows_of(verdict, self._header.run, self._header.started_utc)[from_process:], verdict.last
        with self._writing:
            self._standing[verdict.task.key] = verdict
            self.environment = last.environment or self.environment
            return tuple(self._writer.append(row, samples) for row, samples in rows)

    def judged(self, verdict: TaskVerdict) -> Judged:
        """Return the verdict as an event, once its rows have what only all its processes show."""
        event = judged_of(verdict, self._header.run, self._header.started_utc)
        rows = self._put(verdict)
        solution_s = {stage: spent_s for stage, spent_s in event.stage_s.items() if stage not in REFERENCE_STAGES}
        return replace(event, rows=rows, stage_s=solution_s)

    def drop_if_empty(self) -> None:
        """Remove a journal without a verdict: starting again loses nothing."""
        if not self._standing:
            self._journal.path.unlink(missing_ok=True)

    def end(self) -> None:
        """Remove the journal, unless another try may give a verdict that is missing."""
        if not any(known.status is Status.HARNESS_ERROR for known in self._standing.values()):
            self._journal.path.unlink()


def opened(context: RunContext, notes: tuple[Finding, ...], lane: Lane, builds: Builds, tasks: Sequence[Task]) -> None:
    """Do what precedes the first unit of a run: open the judge, report large cases, build.

    Nothing compiles or starts once it is over, because that disturbs a timing.
    """
    problem, case, solutions = tasks[0].problem, tasks[0].case.name, [task.solution for task in tasks]
    evaluator, report = lane.evaluator, lane.guard.report
    evaluator.turn_to(problem, solutions, context.options)
    report(StageStarted(stage="start", case=case))
    began = time.monotonic()
    evaluator.start(solutions)
    report(StageFinished(stage="start", case=case, elapsed_s=time.monotonic() - began))
    for task in tasks:
        if not lane.dispatcher.why_stopped():
            lane.shapes.of(task, evaluator)
    if lane.dispatcher.why_stopped():
        return
    if large := _large_cases(context, evaluator, tasks[0], solutions):
        report(large)
    wait(builds.start(tasks))
    lane.notes += notes


def _large_cases(
    context: RunContext, evaluator: Evaluator, task: Task, solutions: Sequence[Entry]
) -> LargeCases | None:
    """Name large cases before anything of them is allocated; None for none."""
    problem, kind = task.problem, context.device.kind
    small = case_selection.small_case(problem, context.options)
    cases = tuple(case for case in task.cases if timed_of(case.name) == FORWARD) or task.cases
    asked = cases if small is None else (*cases, small)
    sizes, memory_bytes = evaluator.call_bytes(asked, solutions)
    known = [
        Forecast(case=case.name, device=kind, call_bytes=size, about_s=_last_s(context, problem, case))
        for case, size in zip(asked, sizes, strict=True)
    ]
    large, way_out = large_forecasts(known[: len(cases)], None if small is None else known[-1])
    return LargeCases(cases=large, small=way_out, memory_bytes=memory_bytes) if large else None


def _last_s(context: RunContext, problem: Entry, case: Case) -> float | None:
    return last_duration_s(
        context.options.results_dir,
        problem_sha256=manifest.identity(problem.path),
        overrides=case.overrides,
        device=context.device.uuid,
        timed=not context.options.verify_only,
    )
