"""`profile`: why is a solution slow? Nothing is verified: a profile is what the solution's own process reports."""

import contextlib
import functools
import itertools
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from kbench.catalog import case_selection
from kbench.catalog.registry import Entry
from kbench.core.bottleneck import Advice, advise
from kbench.core.errors import MachineError, PluginError, UsageError
from kbench.core.events import REFERENCE, RunOptions, StageFinished, StageStarted, Waiting
from kbench.core.model import Case, Failed, Peaks, Status
from kbench.core.profile import SolutionProfile, profiled
from kbench.core.roofline import limit
from kbench.devices import peaks, selection, toolkit
from kbench.devices.admission import Admission
from kbench.devices.backend import backend
from kbench.devices.selection import DeviceChoice
from kbench.engine.guard import Guard
from kbench.engine.run import sandbox_rung
from kbench.host import nursery_process
from kbench.host.builder import Builder, built, job_of
from kbench.host.context import RunContext
from kbench.host.judge_process import JudgeProcess, OpenedCase
from kbench.host.profiler import NCU, NCU_FIX, Profiler
from kbench.process.child_error import ChildError
from kbench.sandbox.work_folder import work_folder
from kbench.storage.settings import cache_dir

NO_PEAKS = "the device's peaks are not known, so there is no limit: `kbench doctor` measures them"


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """One solution is profiled: its profile with a sentence, or why it failed."""

    solution: str
    case: str
    device: str
    outcome: SolutionProfile | Failed
    advice: Advice | None


T = TypeVar("T")
ProfileEvent = Waiting | StageStarted | StageFinished | Explained


def profile(
    problem: Entry, solutions: Sequence[Entry], options: RunOptions, *, report: Path | None = None
) -> Generator[ProfileEvent]:
    """Profile solutions at one case.

    `report` is where a report of Nsight Compute goes, of one solution. Raises UsageError for several cases or for what
    the device does not have, MachineError for no device, `ncu` or room, PluginError for a problem that fails.
    """
    device = selection.choose(options.device)
    tool = _tool(device, len(solutions)) if report is not None else None
    cases = case_selection.select(problem, options, backend(device.kind).preferred_cases)
    if len(cases) > 1:
        names = ", ".join(case.name for case in cases)
        raise UsageError(f"a profile covers one case, and these match: {names}", f"`--case {cases[0].name}`")
    rung = sandbox_rung(options, device.kind)
    with contextlib.ExitStack() as stack:
        scratch = stack.enter_context(work_folder())
        stack.enter_context(nursery_process.nursery())
        context = RunContext(options=options, device=device, rung=rung, scratch=scratch)
        guard = Guard(device)
        session = ProfileSession(problem=problem, case=cases[0], context=context, guard=guard)
        opened, known = yield from session.open(solutions)
        for entry in solutions:
            yield from session.explain(entry, opened, known, tool, report)


def _tool(device: DeviceChoice, solutions: int) -> Path:
    """Find `ncu` for a report about these solutions. Raises UsageError or MachineError."""
    if solutions > 1:
        raise UsageError("`--ncu` saves one report, and there are several solutions", "profile them one by one")
    if not backend(device.kind).names_kernels:
        raise UsageError("`--ncu` reads counters of a GPU, and the device is a CPU", "leave it out")
    tool = toolkit.find(NCU)
    if tool is None:
        raise MachineError(f"`--ncu` needs {NCU}, which is not installed", NCU_FIX)
    return tool


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileSession:
    """One case of a problem on one device, with everything that profiles of its solutions need."""

    problem: Entry
    case: Case
    context: RunContext
    guard: Guard

    def open(self, solutions: Sequence[Entry]) -> Generator[ProfileEvent, None, tuple[OpenedCase, Peaks | None]]:
        """Have a judge compute the bytes and operations of a call; it ends before anything is profiled."""

        def ask() -> tuple[OpenedCase, Peaks | None]:
            files = [self.problem.path, *(entry.path for entry in solutions)]
            with contextlib.closing(
                JudgeProcess(self.context, problem=self.problem, files=files, expected=())
            ) as judge:
                try:
                    opened = judge.open(self.problem, self.case)
                except ChildError as error:
                    if error.status is Status.REFERENCE_FAILED:
                        raise PluginError(error.reason) from error
                    raise MachineError(error.reason, "`--case small`, or see `kbench doctor`") from error
            with contextlib.suppress(MachineError):
                return opened, peaks.known_or_measured(self.context.device, cache_dir())
            return opened, None

        return (yield from self._staged("open", REFERENCE, ask))

    def explain(
        self, entry: Entry, opened: OpenedCase, known: Peaks | None, tool: Path | None, report: Path | None
    ) -> Iterator[ProfileEvent]:
        """Build, profile and explain one solution."""
        outcome = yield from self._profiled(entry, opened, known, tool, report)
        if isinstance(outcome, Failed):
            self.guard.look(outcome.status)
            self.guard.is_fit()  # the next run must not use a broken device
        yield Explained(
            solution=entry.name,
            case=self.case.name,
            device=self.context.device.name,
            outcome=outcome,
            advice=None if isinstance(outcome, Failed) else advise(outcome),
        )

    def _profiled(
        self, entry: Entry, opened: OpenedCase, known: Peaks | None, tool: Path | None, report: Path | None
    ) -> Generator[ProfileEvent, None, SolutionProfile | Failed]:
        device, options, cost = self.context.device, self.context.options, opened.cost
        unsupported = entry.unsupported_on(device.kind, self.problem)
        if unsupported is not None:
            return unsupported
        failed = yield from self._build(entry)
        if failed is not None:
            return failed
        cached = built(entry, self.context)
        profiler = Profiler(self.problem, self.context)
        if options.wait_for_device and (holder := Admission(uuid=device.uuid).others()):
            yield Waiting(device=device.name, holder=holder)
        trace_it = functools.partial(profiler.trace, entry, cached.folder, self.case)
        trace = yield from self._staged("profile", entry.name, trace_it, alone=True)
        if isinstance(trace, Failed):
            return trace
        note = ""
        if tool is not None and report is not None:
            save = functools.partial(profiler.save_counters, tool, entry, cached.folder, self.case, report)
            note = yield from self._staged("counters", entry.name, save, alone=True)
        is_limited = cost.dram_bytes or cost.flops
        return profiled(
            entry.name,
            trace,
            names_kernels=backend(device.kind).names_kernels,
            cost=cost,
            bound=limit(cost, known, tf32=options.allow_tf32) if known and is_limited else None,
            notes=[*filter(None, ["" if known else NO_PEAKS, note])],
        )

    def _build(self, entry: Entry) -> Generator[ProfileEvent, None, Failed | None]:
        """Build what the cache lacks: only a call shows what a solution compiles."""
        job = job_of(self.problem, entry, (self.case,), (), self.context)
        first = dict(itertools.islice(job.rehearsals.items(), 1))
        if not first:
            return None
        builder = Builder(self.problem, self.context)
        return (yield from self._staged("build", entry.name, lambda: builder.build(entry, first, calls=True)))

    def _staged(
        self, stage: str, solution: str, work: Callable[[], T], *, alone: bool = False
    ) -> Generator[ProfileEvent, None, T]:
        """Work between the events of a stage; `alone` on the device, where others would disturb the times."""
        yield StageStarted(stage=stage, solution=solution, case=self.case.name)
        began = time.monotonic()
        locked = alone and self.context.options.wait_for_device
        with Admission(uuid=self.context.device.uuid).exclusive() if locked else contextlib.nullcontext():
            done = work()
        yield StageFinished(
            stage=stage,
            case=self.case.name,
            elapsed_s=time.monotonic() - began,
            solution=solution,
            ok=not isinstance(done, Failed),
            detail=done.reason if isinstance(done, Failed) else "",
        )
        return done
