"""`run` and `verify`: plan, build, verify, time, record. Yields events and prints nothing."""

import contextlib
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from kbench.build import manifest
from kbench.core.errors import MachineError, UsageError
from kbench.core.events import Event, Judged, LargeCases, Planned, RunOptions, Saved, StageFinished, StageStarted
from kbench.core.forecast import Forecast, worth_telling
from kbench.core.model import Case, Environment, Failed, Finding, FindingKind, Passed, ResultRow, Sample
from kbench.devices import monitor, peaks, selection
from kbench.devices.admission import in_use
from kbench.devices.backend import backend
from kbench.engine.case_state import NOT_RUN, CaseState
from kbench.engine.evaluator import Evaluator
from kbench.engine.options import fit_to
from kbench.engine.rows import make_row, provenance_of
from kbench.engine.run_builds import build_all
from kbench.engine.unit import Unit, UnitResult, time_left
from kbench.host import health, nursery_process, sanitizer
from kbench.host.builder import MAYBE_THE_PROBLEM, Builder, Job, job_of
from kbench.host.context import RunContext
from kbench.plugins import case_selection, registry
from kbench.plugins.registry import Entry
from kbench.plugins.shapes import Derived
from kbench.sandbox import rung_probe, rungs
from kbench.storage import quarantine
from kbench.storage import rows as rowmaker
from kbench.storage.details import last_duration_s
from kbench.storage.results import Run, RunWriter, read_run
from kbench.storage.settings import cache_dir


def run(problem: Entry, solutions: Sequence[Entry], options: RunOptions) -> Generator[Event]:
    """Judge solutions of a problem, case by case; events are yielded once rows are on the disk.

    Raises UsageError for an unknown case or constant, or a mode that the device lacks; MachineError for a device that
    is missing or quarantined; NothingSelectedError where no case matches; PluginError for a problem that cannot run.
    """
    device = selection.choose(options.device)
    options, solutions = fit_to(options, device), registry.told_apart(solutions)
    quarantine.refuse(cache_dir(), device.uuid)
    sanitizer.require(options, device)
    cases = case_selection.select(problem, options, backend(device.kind).preferred_cases)
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
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kbench-", ignore_cleanup_errors=True)))
        writer = None
        if options.save:
            names = [entry.name for entry in solutions]
            writer = RunWriter(options.results_dir, options.name, problem=problem.name, solutions=names)
            stack.enter_context(writer)
        context = RunContext(options=options, device=device, rung=rung, scratch=scratch)
        session = Session(problem, solutions, cases, context, writer)
        stack.callback(session.evaluator.close)
        yield from session.start()
        yield from session.derive()
        yield from session.foresee()
        yield from session.build()
        if options.wait_for_device and not options.verify_only:
            session.settle_device(stack)
        for case in cases:
            yield from session.judge(case)
        saved = str(writer.csv_path) if writer is not None else None
        yield Saved(csv_path=saved, environment=session.environment, peaks=session.evaluator.peaks)


def saved_run(problem: Entry, solutions: Sequence[Entry], options: RunOptions, watch: Callable[[Event], None]) -> Run:
    """Judge solutions in a run of their own that leaves no files, and return it; `watch` sees its events."""
    with tempfile.TemporaryDirectory(prefix="kbench-run-") as folder:
        options = replace(options, results_dir=Path(folder), name="run")
        with contextlib.closing(run(problem, solutions, options)) as events:
            for event in events:
                watch(event)
        return read_run(Path(folder, "run.csv"))


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


def strangers(context: RunContext) -> tuple[Finding, ...]:
    """Name other processes on the device of a run that times, unless they are kbench's, which take turns with it."""
    device = context.device
    if not context.options.wait_for_device or context.options.verify_only:
        return ()
    found = monitor.foreign_processes(device)
    if not found or in_use(device.uuid):
        return ()
    message = f"other processes computed on the device when the run began: {', '.join(found)}"
    return (Finding(code="interference", kind=FindingKind.TIMING, message=message),)


class Session:
    """One run's parent: builds ahead, and drives one judge through all cases and processes."""

    def __init__(
        self,
        problem: Entry,
        solutions: Sequence[Entry],
        cases: tuple[Case, ...],
        context: RunContext,
        writer: RunWriter | None,
    ):
        self._problem, self._solutions, self._cases, self._writer = problem, solutions, cases, writer
        self._context, self._options, self._device = context, context.options, context.device
        self._failed: dict[str, Failed] = {}
        self._stage_s: dict[str, float] = {}
        self._left = {entry.name: time_left(context.options) for entry in solutions}
        self._remarks = strangers(context)  # while nothing of this run is on the device
        self._watch = health.Watch(context.device, cache_dir())
        self.evaluator = Evaluator(context.device, context.rung, context.scratch, self._watch)
        self.evaluator.turn_to(problem, solutions, context.options)
        self._derived = Derived()
        name = writer.csv_path.stem if writer is not None else context.options.name or "unsaved"
        self._provenance = provenance_of(problem, name)
        self.environment: Environment | None = None

    def start(self) -> Iterator[Event]:
        """Start the judge, which has to import torch."""
        yield from self._own_stage("start", lambda: self.evaluator.start(self._solutions))

    def _own_stage(self, stage: str, step: Callable[[], None]) -> Iterator[Event]:
        case = self._cases[0].name
        yield StageStarted(stage=stage, case=case)
        began = time.monotonic()
        step()
        yield StageFinished(stage=stage, case=case, elapsed_s=time.monotonic() - began)

    def derive(self) -> Iterator[Event]:
        """Derive shapes, if a solution needs any that the problem does not list."""
        if not any(map(self._needs_derived_shapes, self._solutions)):
            return

        def find() -> None:
            self._derived = self.evaluator.derive(self._solutions, self._cases[0])

        yield from self._own_stage("shapes", find)

    def foresee(self) -> Iterator[Event]:
        """Report large cases before anything of them is allocated."""
        small = case_selection.small_case(self._problem, self._options)
        asked = self._cases if small is None else (*self._cases, small)
        sizes, memory_bytes = self.evaluator.call_bytes(asked, self._solutions)
        known = [
            Forecast(case=case.name, device=self._device.kind, call_bytes=size, about_s=self._last_s(case))
            for case, size in zip(asked, sizes, strict=True)
        ]
        large, way_out = worth_telling(known[: len(self._cases)], None if small is None else known[-1])
        if large:
            yield LargeCases(cases=large, small=way_out, memory_bytes=memory_bytes)

    def _last_s(self, case: Case) -> float | None:
        return last_duration_s(
            self._options.results_dir,
            problem_sha256=manifest.identity(self._problem.path),
            overrides=case.overrides,
            device=self._device.uuid,
            timed=not self._options.verify_only,
        )

    def build(self) -> Iterator[Event]:
        """Build what the cache lacks; failures are reported later, in order."""
        jobs = []
        for entry in self._solutions:
            derived = self._derived.cases if self._needs_derived_shapes(entry) else []
            if entry.unsupported_on(self._device.kind, self._problem) is None:
                jobs.append(job_of(self._problem, entry, self._cases, derived, self._context))
        first = self._cases[0]
        for news in build_all([job for job in jobs if not job.is_done], Builder(self._problem, self._context)):
            if isinstance(news, Job):
                yield StageStarted(stage="build", solution=news.entry.name, case=first.name)
                continue
            entry, failure, elapsed_s = news.job.entry, news.failure, news.elapsed_s
            self._stage_s[entry.name] = elapsed_s
            if failure is not None:
                self._failed[entry.name] = self.evaluator.explain(failure, entry, first)
                self._watch.look(failure.status)
            yield StageFinished(
                stage="build",
                case=first.name,
                elapsed_s=elapsed_s,
                solution=entry.name,
                ok=failure is None,
                detail="compiled" if failure is None else failure.reason,
            )

    def settle_device(self, stack: contextlib.ExitStack) -> None:
        """Measure missing peaks, and lock the clocks if requested."""
        try:
            self.evaluator.peaks = peaks.known_or_measured(self._device, cache_dir())
        except MachineError as error:
            self._remarks += (Finding.note("no_peaks", error.message),)
        if (mhz := self._options.lock_clocks_mhz) is not None:
            stack.enter_context(monitor.locked_clocks(self._device, mhz))
            code, message = f"{rowmaker.CLOCKS_LOCKED}_{mhz}", f"SM clock locked at {mhz} MHz"
            self._remarks += (Finding.note(code, message),)

    def judge(self, case: Case) -> Iterator[Event]:
        """Judge every solution on one case: replicate after replicate, each with fresh workers."""
        states = [CaseState(entry=entry, case=case) for entry in self._solutions]
        for state in states:
            if (built_s := self._stage_s.pop(state.entry.name, None)) is not None:
                state.stage_s["build"] = built_s  # of the first case: it is built once for all
            state.outcome = (
                state.entry.unsupported_on(self._device.kind, self._problem)
                or self._build_failure(state.entry, case)
                or NOT_RUN
            )
        process = 0
        while unfinished := [state for state in states if not state.closed]:
            # In alternating order, so that no solution profits from its position.
            yield from self._replicate(unfinished[:: -1 if process % 2 else 1], process)
            process += 1

    def _build_failure(self, entry: Entry, case: Case) -> Failed | None:
        """Return the failure of the build; one that constructs no model may be the problem's fault."""
        failure = self._failed.get(entry.name)
        if failure is not None and failure.status in MAYBE_THE_PROBLEM:
            return self.evaluator.why_not(case, [entry]) or failure
        return failure

    def _replicate(self, states: list[CaseState], process: int) -> Iterator[Event]:
        for number, state in enumerate(states):
            if self._watch.quarantine is not None:
                state.give_up(f"the device stopped working: {self._watch.quarantine.reason}")
            elif state.wants_more(self._options):
                # The same ones usually follow, in reverse order.
                later = [*states[number + 1 :], *([] if self._options.verify_only else states[::-1])]
                following = [other.entry for other in later if other.wants_more(self._options)]
                yield from self._evaluate(state, process, following)
            if not state.wants_more(self._options):
                yield from self._add_own_share(state)
                yield self._close(state)
            elif (estimated := state.estimate(self._options)) is not None:
                yield estimated

    def _needs_derived_shapes(self, entry: Entry) -> bool:
        return case_selection.needs_derived_shapes(self._problem, entry, self._options.level)

    def _evaluate(self, state: CaseState, process: int, following: Sequence[Entry]) -> Iterator[Event]:
        unit = self._unit(state, process)
        result = yield from self.evaluator.evaluate(unit, following, self._left[state.entry.name])
        state.add_times(result.stage_s)
        self.environment = result.environment or self.environment
        if result.cost is None:  # the problem itself fails
            state.outcome = result.outcome
            return
        outcome = result.outcome
        if isinstance(outcome, Passed):
            outcome = replace(outcome, findings=(*outcome.findings, *self._remarks))
        state.add(outcome)
        state.rows += (self._written(self._row(state, process, result), result.samples),)

    def _written(self, row: ResultRow, samples: Sequence[Sample] = ()) -> ResultRow:
        return self._writer.append(row, samples) if self._writer is not None else row

    def _unit(self, state: CaseState, process: int) -> Unit:
        derived = self._derived if self._needs_derived_shapes(state.entry) else Derived()
        return state.unit(self._problem, process, self._options, derived)

    def _add_own_share(self, state: CaseState) -> Iterator[Event]:
        """Add whose kernels a call of a timed solution launches; whatever fails there changes no verdict."""
        if not isinstance(state.outcome, Passed) or not state.outcome.timings:
            return
        unit = self._unit(state, len(state.outcome.timings))
        told = yield from self.evaluator.own_share(unit, state.stage_s)
        if told is not None:
            state.add_own_share(told)

    def _row(self, state: CaseState, process: int, result: UnitResult) -> ResultRow:
        here = replace(result, environment=result.environment or self.environment)
        what = self._provenance, state.entry, state.case, process, self._options, here
        return make_row(*what, device=self._device.kind, outcome=state.outcome)

    def _close(self, state: CaseState) -> Judged:
        state.closed = True
        state.tell_budget(self._options)
        if not state.rows:
            isolation = rungs.Rung(self._context.rung).name.lower()
            row = self._row(state, 0, UnitResult(outcome=state.outcome, isolation=isolation))
            state.rows = (self._written(row),)
        elif isinstance(state.outcome, Passed) and state.outcome.timings:
            state.rows = rowmaker.with_interval(state.rows, state.outcome.timings, self._options.precision)
            state.rows = rowmaker.with_own_share(state.rows, state.outcome.own_share, state.share_flag)
            if self._writer is not None:
                self._writer.amend(state.rows)
        return state.judged(state.case.name, state.rows)
