"""Builds ahead of the devices: a pool on the processors that passes tasks on when they are ready."""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from kbench.build import hints, manifest
from kbench.core.events import StageEvent, StageFinished, StageStarted
from kbench.core.model import Case
from kbench.devices.admission import Admission
from kbench.devices.backend import backend
from kbench.engine.dispatch import Dispatcher
from kbench.engine.evaluator import Evaluator, key_of
from kbench.engine.task import Finished, Task
from kbench.engine.unit import UnitResult
from kbench.host.builder import MAYBE_THE_PROBLEM, Builder, built, job_of
from kbench.host.context import RunContext
from kbench.host.turn import Turn
from kbench.plugins import case_selection
from kbench.plugins.registry import Entry
from kbench.plugins.shapes import Derived

BuildKey = tuple[Path, Path, str]
"""Problem, solution and variant: built once for all cases."""
Tell = Callable[[Finished | StageStarted | BaseException], None]


class DerivedShapes:
    """Shapes that problems do not list, found once for each problem's source and case."""

    def __init__(self, evaluator: Evaluator, tell: Callable[[StageEvent], None]):
        self._own = evaluator
        self._tell = tell
        self._found: dict[tuple[Path, str, str], Derived] = {}
        self._lock = threading.Lock()

    def of(self, task: Task, lane: Evaluator | None = None) -> Derived:
        """Return the shapes at which a solution is verified beside the problem's cases: the lane's judge finds them."""
        problem, options = task.problem, task.options
        if not case_selection.needs_derived_shapes(problem, task.solution, options.level):
            return Derived()
        source = manifest.identity(problem.path)  # a server's problem may be edited
        key = problem.path, source, key_of(task.case)
        if key in self._found:
            return self._found[key]
        if lane is not None:
            return self._found.setdefault(key, self._derive(lane, task.case, [task.solution]))
        with self._lock:
            if key not in self._found:
                self._own.turn_to(problem, [], options)
                self._found[key] = self._derive(self._own, task.case, [])
            return self._found[key]

    def _derive(self, evaluator: Evaluator, case: Case, expected: Sequence[Entry]) -> Derived:
        evaluator.start(expected)
        began = time.monotonic()
        self._tell(StageStarted(stage="shapes", case=case.name))
        derived = evaluator.derive(expected, case)
        self._tell(StageFinished(stage="shapes", case=case.name, elapsed_s=time.monotonic() - began))
        return derived

    def close(self) -> None:
        """End the judge that is for nothing else."""
        with self._lock:
            self._own.close()


class Builds:
    """Builds what the cache lacks, `jobs` at a time, and gives every task to the dispatcher."""

    def __init__(self, context: RunContext, dispatcher: Dispatcher, shapes: DerivedShapes, *, jobs: int, tell: Tell):
        self._context, self._dispatcher, self._shapes, self._tell = context, dispatcher, shapes, tell
        options, device = context.options, context.device
        timed = options.wait_for_device and not options.verify_only
        whole = timed and not backend(device.kind).queues_calls
        self._turn = Turn(Admission(uuid=device.uuid) if timed else None, whole=whole)
        self._pool = ThreadPoolExecutor(max_workers=jobs)
        self._builders: list[Builder] = []
        self._lock = threading.Lock()

    def start(self, tasks: Sequence[Task]) -> None:
        """Pass on tasks that need no build, and build the others. All tasks have equal options."""
        groups: dict[BuildKey, list[Task]] = defaultdict(list)
        ready: list[Task] = []
        for task in tasks:
            refused = task.refused or task.solution.unsupported_on(self._context.device.kind, task.problem)
            if refused is not None:
                self._refuse(task, UnitResult(outcome=refused))
            elif self._may_need_a_build(task.solution):
                groups[task.problem.path, task.solution.path, task.solution.variant].append(task)
            else:
                ready.append(task)
        for task in ready:  # all at once: a lane takes several of one problem
            self._dispatcher.built(task)
        for group in groups.values():
            self._pool.submit(self._guarded, group)

    def _may_need_a_build(self, solution: Entry) -> bool:
        return built(solution, self._context).is_built or hints.may_compile(solution.path, solution.builtin)

    def stop(self) -> None:
        """Kill all builds and start no more; returns when none of them runs."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            builders = [*self._builders]
        for builder in builders:
            builder.stop()
        self._pool.shutdown(wait=True)

    def _guarded(self, group: Sequence[Task]) -> None:
        try:
            self._build(group)
        except BaseException as error:  # noqa: BLE001 - raised again by the thread that asked
            self._tell(error)

    def _build(self, group: Sequence[Task]) -> None:
        if self._dispatcher.why_stopped():
            return
        first = group[0]
        problem, solution = first.problem, first.solution
        context = replace(self._context, options=first.options)
        derived = [shape for task in group for shape in self._shapes.of(task).cases]
        job = job_of(problem, solution, [task.case for task in group], derived, context)
        failure, began = None, time.monotonic()
        if not job.is_done:
            self._tell(StageStarted(stage="build", solution=solution.name, case=first.case.name))
            builder = Builder(problem, context, turn=self._turn)
            with self._lock:
                self._builders.append(builder)
            if self._dispatcher.why_stopped():
                return
            failure = builder.build(solution, job.rehearsals)
            with self._lock:
                self._builders.remove(builder)
        if self._dispatcher.why_stopped():
            return
        elapsed_s = time.monotonic() - began
        for number, task in enumerate(group):
            if failure is not None and failure.status not in MAYBE_THE_PROBLEM:
                stage_s = {} if number else {"build": elapsed_s}
                self._refuse(task, UnitResult(outcome=failure, stage_s=stage_s))
                continue
            built_s = None if number or failure is not None else elapsed_s
            self._dispatcher.built(replace(task, unbuilt=failure, built_s=built_s))

    def _refuse(self, task: Task, result: UnitResult) -> None:
        verdict = self._dispatcher.record(task, result, "")
        if verdict is not None:
            self._tell(Finished(verdict=verdict, elapsed_s=sum(verdict.state.stage_s.values())))
