"""Builds ahead of the lanes: what the cache lacks is built on the processors, and tasks are passed on when ready."""

import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path

from kbench.build import hints
from kbench.catalog.registry import Entry
from kbench.core.events import StageEvent, StageFinished, StageStarted
from kbench.core.model import Failed
from kbench.engine.derived_shapes import DerivedShapes
from kbench.engine.dispatch import Dispatcher
from kbench.engine.task import Task
from kbench.host.builder import MAYBE_THE_PROBLEM, Builder, built, job_of, turn_of
from kbench.host.context import RunContext
from kbench.host.health import PROBED_AFTER

BuildKey = tuple[Path, Path, str]
"""Problem, solution and variant: built once for all cases."""
LANE_EXPLAINS = MAYBE_THE_PROBLEM | PROBED_AFTER
"""Failures of a build that a lane looks into: they may be the problem's own, or a broken device's."""
TICK_S = 0.2
"""Chosen. Seconds between two attempts to end what is in flight."""


def default_jobs() -> int:
    """Return the number of parallel builds beside lanes: one for each processor."""
    return max(1, len(os.sched_getaffinity(0)))


class Builds:
    """Builds what the cache lacks, `jobs` at a time, and gives every task to the dispatcher.

    `beside_lanes` makes builds give way to judges, which time on the same device meanwhile.
    """

    def __init__(
        self,
        context: RunContext,
        dispatcher: Dispatcher,
        shapes: DerivedShapes,
        *,
        jobs: int,
        report: Callable[[StageEvent | BaseException], None],
        beside_lanes: bool = True,
    ):
        self._context, self._dispatcher, self._shapes, self._report = context, dispatcher, shapes, report
        self._turn = turn_of(context) if beside_lanes else None
        self._pool = ThreadPoolExecutor(max_workers=jobs)
        self._running: list[Future[None]] = []
        self._builders: list[Builder] = []
        self._lock = threading.Lock()

    def start(self, tasks: Sequence[Task]) -> "list[Future[None]]":
        """Pass on tasks that need no build, and build the others."""
        groups: dict[BuildKey, list[Task]] = defaultdict(list)
        ready: list[Task] = []
        for task in tasks:
            refused = task.refused or task.solution.unsupported_on(self._context.device.kind, task.problem)
            if refused is not None or not self._may_need_a_build(task.solution):
                ready.append(replace(task, refused=refused))
            else:
                groups[task.problem.path, task.solution.path, task.solution.variant].append(task)
        self._dispatcher.built(ready)  # all at once: a lane takes several of one problem
        begun = [self._pool.submit(self._guarded, group) for group in groups.values()]
        self._running = [*(build for build in self._running if not build.done()), *begun]
        return begun

    def _may_need_a_build(self, solution: Entry) -> bool:
        return built(solution, self._context).is_built or hints.may_compile(solution.path, solution.builtin)

    def stop(self) -> None:
        """Kill all builds and start no more; returns when none of them runs."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        while running := [build for build in self._running if not build.done()]:
            with self._lock:
                builders = [*self._builders]
            for builder in builders:
                builder.stop()
            self._shapes.interrupt()  # again and again: a judge that died is replaced
            wait(running, timeout=TICK_S)
        self._pool.shutdown(wait=True)

    def _guarded(self, group: Sequence[Task]) -> None:
        try:
            self._build(group)
        except BaseException as error:  # noqa: BLE001 - raised again by the thread that asked
            self._report(error)

    def _build(self, group: Sequence[Task]) -> None:
        if self._dispatcher.why_stopped():
            return
        first = group[0]
        context = replace(self._context, options=first.options)
        derived = [shape for task in group for shape in self._shapes.of(task).cases]
        job = job_of(first.problem, first.solution, [task.case for task in group], derived, context)
        failure, began = None, time.monotonic()
        if job.is_done:
            self._dispatcher.built(group)
            return
        self._report(StageStarted(stage="build", solution=first.solution.name, case=first.case.name))
        builder = Builder(first.problem, context, turn=self._turn)
        with self._lock:
            self._builders.append(builder)
        if self._dispatcher.why_stopped():
            return
        failure = builder.build(first.solution, job.rehearsals)
        with self._lock:
            self._builders.remove(builder)
        if self._dispatcher.why_stopped():
            return
        elapsed_s = time.monotonic() - began
        self._report(
            StageFinished(
                stage="build",
                solution=first.solution.name,
                case=first.case.name,
                ok=failure is None,
                elapsed_s=elapsed_s,
                detail="compiled" if failure is None else failure.reason,
            )
        )
        tasks = [replace(first, built_s=elapsed_s), *group[1:]]  # its seconds are counted once
        self._dispatcher.built([_after_build(task, failure) for task in tasks])


def _after_build(task: Task, failure: Failed | None) -> Task:
    if failure is None:
        return task
    if failure.status in LANE_EXPLAINS:
        return replace(task, unbuilt=failure)
    return replace(task, refused=failure)
