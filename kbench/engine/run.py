"""`run` and `verify`: a sweep with one problem and one lane, whose rows are on the disk as soon as they are known."""

import contextlib
import queue
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
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
    StageEvent,
    StageFinished,
    StageStarted,
)
from kbench.core.forecast import Forecast, large_forecasts
from kbench.core.model import Case, Failed, Finding, FindingKind, Passed, ResultRow, Status
from kbench.devices import monitor, peaks, selection
from kbench.devices.admission import Admission
from kbench.devices.backend import backend
from kbench.engine.builds import Builds, default_jobs
from kbench.engine.derived_shapes import DerivedShapes
from kbench.engine.dispatch import Dispatcher
from kbench.engine.evaluator import Evaluator
from kbench.engine.guard import Guard
from kbench.engine.journal import Header, Journal, Record
from kbench.engine.ladder import unfinished
from kbench.engine.lane import Lane
from kbench.engine.options import fit_to
from kbench.engine.plan import tasks_of
from kbench.engine.rows import provenance_of
from kbench.engine.task import Budgets, Finished, LaneEvent, Task, TaskVerdict
from kbench.engine.unit import UnitResult
from kbench.host import nursery_process, sanitizer
from kbench.host.context import RunContext
from kbench.host.work_folder import work_folder
from kbench.sandbox import rung_probe, rungs
from kbench.storage import quarantine
from kbench.storage import rows as rowmaker
from kbench.storage.details import last_duration_s
from kbench.storage.journal_file import SUFFIX
from kbench.storage.results import Run, RunWriter, read_run
from kbench.storage.settings import cache_dir

PROCESSORS_EACH = 2
"""Processors for each build: a compiler and its linker, or Python and what it compiles."""
NO_LIMITS = Budgets(verify_s=None, time_s=None)


def run(
    problem: Entry,
    solutions: Sequence[Entry],
    options: RunOptions,
    *,
    arguments: Mapping[str, Any] | None = None,
    resumed: Record | None = None,
) -> Generator[Event]:
    """Judge solutions of a problem, case by case; events are yielded once rows are on the disk.

    With `arguments` it keeps a journal until all is judged, and goes on with the results of a `resumed` one. Raises
    UsageError for an unknown case or constant, or a mode that the device lacks; MachineError for a device that is
    missing or quarantined; NothingSelectedError where no case matches; PluginError for a problem that cannot run.
    """
    device = selection.choose(options.device)
    options, solutions = replace(fit_to(options, device), device=device.kind), registry.with_unique_names(solutions)
    quarantine.refuse(cache_dir(), device.uuid)
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
            at_most=1 if options.verify_only else options.max_processes,
            backward=options.backward,
        )
        scratch = stack.enter_context(work_folder())
        files = RunFiles(problem, solutions, options, arguments, resumed)
        stack.enter_context(files)
        yield Saved(csv_path=files.csv_path, environment=None)
        context = RunContext(options=options, device=device, rung=rung, scratch=scratch)
        session = Session(tasks, context, files, stack)
        left, known = unfinished(tasks, resumed.results if resumed is not None else {})
        yield from (files.judged(verdict) for verdict in files.restore(tasks, known) if verdict.task not in left)
        if left:
            yield from session.judge(left, known)
        files.end()
        yield Saved(csv_path=files.csv_path, environment=session.lane.environment, peaks=session.lane.evaluator.peaks)


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


class RunFiles:
    """The files of a run: rows as they become known, and a journal until all is judged; a context manager."""

    def __init__(
        self,
        problem: Entry,
        solutions: Sequence[Entry],
        options: RunOptions,
        arguments: Mapping[str, Any] | None,
        resumed: Record | None,
    ):
        name, again = (options.name, False) if resumed is None else (resumed.header.run, True)
        names = [entry.name for entry in solutions]
        self._writer = None
        if options.save:
            self._writer = RunWriter(options.results_dir, name, problem=problem.name, solutions=names, again=again)
        self._problem, self._options, self._arguments, self._resumed = problem, options, arguments, resumed
        self._journal: Journal | None = None
        self._written: dict[str, list[ResultRow]] = {}
        self.is_final = True
        """Every task has a verdict so far."""
        self._open = contextlib.ExitStack()

    def __enter__(self) -> None:
        started_utc, name = None, self._options.name or "unsaved"
        with contextlib.ExitStack() as stack:
            if self._writer is not None:
                stack.enter_context(self._writer)
                name = self._writer.csv_path.stem
            if self._resumed is not None:
                started_utc = self._resumed.header.started_utc
            self._provenance = provenance_of(self._problem, name, started_utc)
            if self._writer is not None and self._arguments is not None:
                given, command = dict(self._arguments), "verify" if self._options.verify_only else "run"
                fresh = Header(run=name, started_utc=self._provenance["started_utc"], arguments=given, command=command)
                header = fresh if self._resumed is None else self._resumed.header
                path = self._writer.csv_path.with_name(f"{name}{SUFFIX}")
                self._journal = stack.enter_context(Journal(path, header, resumed=self._resumed))
            self._open = stack.pop_all()

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @property
    def csv_path(self) -> str | None:
        """Path of the rows; None where nothing is saved."""
        return str(self._writer.csv_path) if self._writer is not None else None

    def write(self, verdict: TaskVerdict, device: str) -> None:
        """Write the last unit of a task. Raises MachineError."""
        if self._journal is not None:
            self._journal.append(verdict, device)
        self.write_row(verdict, len(verdict.results) - 1)

    def restore(self, tasks: Sequence[Task], known: Mapping[str, tuple[UnitResult, ...]]) -> list[TaskVerdict]:
        """Write the rows of the results that are kept of a broken-off run; return what its tasks come to."""
        found = [TaskVerdict(task=task, results=known[task.key], resumed=True) for task in tasks]
        for verdict in found:
            for process in range(len(verdict.results)):
                self.write_row(verdict, process)
        return found

    def write_row(self, verdict: TaskVerdict, process: int) -> None:
        """Write the row of one process."""
        row = verdict.row(process, self._provenance)
        if self._writer is not None:
            row = self._writer.append(row, verdict.results[process].samples)
        self._written.setdefault(verdict.task.key, []).append(row)

    def judged(self, verdict: TaskVerdict) -> Judged:
        """Return the verdict as an event, once its rows have what only all its processes show."""
        event = verdict.judged(provenance=self._provenance)
        written = self._written[verdict.task.key]
        rows = tuple(
            replace(row, samples_sha256=before.samples_sha256) for row, before in zip(event.rows, written, strict=True)
        )
        if self._writer is not None and isinstance(verdict.outcome, Passed) and verdict.outcome.timings:
            self._writer.amend(rows)
        self.is_final = self.is_final and verdict.status is not Status.HARNESS_ERROR
        solution_s = {stage: spent_s for stage, spent_s in event.stage_s.items() if stage not in REFERENCE_STAGES}
        return replace(event, rows=rows, stage_s=solution_s)

    def end(self) -> None:
        """Remove the journal, unless another try may give a verdict that is missing."""
        if self._journal is not None and self.is_final:
            self._journal.path.unlink()


class Session:
    """One run's parent: builds ahead, and has one lane judge all cases and processes."""

    def __init__(self, tasks: Sequence[Task], context: RunContext, files: RunFiles, stack: contextlib.ExitStack):
        self._tasks, self._context, self._files, self._stack = tasks, context, files, stack
        self._options, self._device = context.options, context.device
        self._solutions = list(dict.fromkeys(task.solution for task in tasks))
        self._guard = Guard(self._device, cache_dir())
        self._dispatcher = Dispatcher(max_failures=None, write=files.write, lanes=1, batch=len(tasks))
        self._shapes = DerivedShapes()
        self.lane = Lane(
            Evaluator(self._device, context.rung, context.scratch, self._guard),
            self._guard,
            self._dispatcher,
            self._shapes,
            NO_LIMITS,
            is_run=True,
            isolation=rungs.Rung(context.rung).name.lower(),
            notes=other_processes(context),  # while nothing of this run is on the device
        )
        stack.callback(self.lane.evaluator.close)

    def judge(self, left: Sequence[Task], known: Mapping[str, tuple[UnitResult, ...]]) -> Iterator[Event]:
        """Prepare the judge and the builds, and judge what is left."""
        place = {task.key: number for number, task in enumerate(self._tasks)}
        self._dispatcher.add(left, known)
        yield from self._start(left)
        yield from self._large_cases()
        yield from self._build(left)
        self._prepare_device()
        self._dispatcher.finish()
        while batch := self._dispatcher.take(""):
            batch.sort(key=lambda task: place[task.key])
            events = self.lane.judge(batch) if self._guard.quarantine is None else self._give_up(batch)
            for event in events:
                if isinstance(event, Finished):
                    yield self._files.judged(event.verdict)
                elif isinstance(event, Event):
                    yield event

    def _start(self, left: Sequence[Task]) -> Iterator[StageEvent]:
        """Start the judge, which has to import torch, and have it derive shapes where the problem lists too few."""
        evaluator, case = self.lane.evaluator, self._tasks[0].case.name
        evaluator.turn_to(self._tasks[0].problem, self._solutions, self._options)
        yield StageStarted(stage="start", case=case)
        began = time.monotonic()
        evaluator.start(self._solutions)
        yield StageFinished(stage="start", case=case, elapsed_s=time.monotonic() - began)
        for task in left:
            yield from self._shapes.by_lane(task, evaluator)

    def _large_cases(self) -> Iterator[LargeCases]:
        """Report large cases before anything of them is allocated."""
        problem, cases = self._tasks[0].problem, self._tasks[0].cases
        small = case_selection.small_case(problem, self._options)
        asked = cases if small is None else (*cases, small)
        sizes, memory_bytes = self.lane.evaluator.call_bytes(asked, self._solutions)
        known = [
            Forecast(case=case.name, device=self._device.kind, call_bytes=size, about_s=self._last_s(problem, case))
            for case, size in zip(asked, sizes, strict=True)
        ]
        large, way_out = large_forecasts(known[: len(cases)], None if small is None else known[-1])
        if large:
            yield LargeCases(cases=large, small=way_out, memory_bytes=memory_bytes)

    def _last_s(self, problem: Entry, case: Case) -> float | None:
        return last_duration_s(
            self._options.results_dir,
            problem_sha256=manifest.identity(problem.path),
            overrides=case.overrides,
            device=self._device.uuid,
            timed=not self._options.verify_only,
        )

    def _build(self, left: Sequence[Task]) -> Iterator[StageEvent]:
        """Build what the cache lacks, all of it before the first unit: a compiler disturbs a timing."""
        news: queue.SimpleQueue[StageEvent | BaseException | Future[None]] = queue.SimpleQueue()
        jobs = max(1, default_jobs() // PROCESSORS_EACH)
        builds = Builds(self._context, self._dispatcher, self._shapes, jobs=jobs, report=news.put, beside_lanes=False)
        try:
            running = builds.start(left)
            for build in running:
                build.add_done_callback(news.put)
            over = 0
            while over < len(running):
                match news.get():
                    case Future():
                        over += 1
                    case BaseException() as error:
                        raise error
                    case event:
                        yield event
        finally:
            builds.stop()

    def _prepare_device(self) -> None:
        """Measure missing peaks, and lock the clocks if requested."""
        if not self._options.wait_for_device or self._options.verify_only:
            return
        try:
            self.lane.evaluator.peaks = peaks.known_or_measured(self._device, cache_dir())
        except MachineError as error:
            self.lane.notes += (Finding.note("no_peaks", error.message),)
        if (mhz := self._options.lock_clocks_mhz) is not None:
            self._stack.enter_context(monitor.locked_clocks(self._device, mhz))
            code, message = f"{rowmaker.CLOCKS_LOCKED}_{mhz}", f"SM clock locked at {mhz} MHz"
            self.lane.notes += (Finding.note(code, message),)

    def _give_up(self, batch: Sequence[Task]) -> Iterator[LaneEvent]:
        """End tasks whose device is gone: without a verdict, or with the processes that they have."""
        assert self._guard.quarantine is not None, "the device is gone"
        reason = f"the device stopped working: {self._guard.quarantine.reason}"
        self._files.is_final = False
        for task in batch:
            verdict = TaskVerdict(task=task, results=self._dispatcher.results(task))
            if not verdict.results:
                outcome = Failed(status=Status.NOT_VERIFIED, reason=reason)
                result = UnitResult(outcome=outcome, isolation=self.lane.isolation, environment=self.lane.environment)
                verdict = replace(verdict, results=(result,))
                self._files.write_row(verdict, 0)
            else:
                cut = Finding(code="device_quarantined", kind=FindingKind.TIMING, message=reason)
                last = replace(verdict.last.outcome, findings=(*verdict.last.outcome.findings, cut))
                verdict = replace(verdict, results=(*verdict.results[:-1], replace(verdict.last, outcome=last)))
            self._dispatcher.drop(task)
            yield Finished(verdict=verdict, elapsed_s=0.0)
