"""Builds ahead of the devices: a pool on the processors, which hands tasks on as they are ready."""

import contextlib
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType

from kbench.build import cache, sources
from kbench.core.events import RunOptions
from kbench.core.levels import Level
from kbench.core.model import Failed, Status
from kbench.devices.admission import Admission
from kbench.devices.backend import backend
from kbench.devices.selection import DeviceChoice
from kbench.host.builder import Builder
from kbench.plugins import case_selection
from kbench.plugins.shapes import Derived
from kbench.storage.settings import cache_dir
from kbench.sweep.dispatch import Dispatcher
from kbench.sweep.task import Task, TaskVerdict
from kbench.units.evaluator import Evaluator
from kbench.units.unit import UnitResult

BuildKey = tuple[Path, Path, str]
"""Problem, solution and its variant: what is built once for all cases."""


class DerivedShapes:
    """DerivedShapes that problems do not list, found once for each by a judge that is kept for this."""

    def __init__(self, evaluator: Evaluator):
        self._evaluator = evaluator
        self._found: dict[Path, Derived] = {}
        self._lock = threading.Lock()

    def of(self, task: Task) -> Derived:
        """Return the shapes that a solution is verified at beside the problem's cases: built-in ones at none."""
        problem, options = task.problem, task.options
        if task.solution.builtin is not None or options.level is Level.TASK or case_selection.lists_shapes(problem):
            return Derived()
        with self._lock:
            if problem.path not in self._found:
                self._evaluator.turn_to(problem, [], options)
                self._found[problem.path] = self._evaluator.derive()
            return self._found[problem.path]

    def close(self) -> None:
        """End the judge."""
        with self._lock:
            self._evaluator.close()


class Turn:
    """Who may compute on the device while compiling: one thread at a time, and nobody times meanwhile."""

    def __init__(self, admission: Admission | None):
        self._admission = admission
        self._lock = threading.RLock()
        self._held: list[contextlib.ExitStack] = []

    def __enter__(self) -> None:
        self._lock.acquire()
        stack = contextlib.ExitStack()
        try:
            if self._admission is not None and not self._held:
                stack.enter_context(self._admission.shared())
            self._held.append(stack)
        except BaseException:
            self._lock.release()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._held.pop().close()
        finally:
            self._lock.release()


class Builds:
    """Builds what the cache lacks, `jobs` at a time, and gives every task to the dispatcher."""

    def __init__(
        self,
        options: RunOptions,
        device: DeviceChoice,
        rung: int,
        scratch: Path,
        dispatcher: Dispatcher,
        shapes: DerivedShapes,
        *,
        jobs: int,
        tell: Callable[[TaskVerdict | BaseException | None], None],
    ):
        self._device = device
        self._rung = rung
        self._scratch = scratch
        self._dispatcher = dispatcher
        self._shapes = shapes
        self._tell = tell
        timed = options.wait_for_device and not options.verify_only
        self._turn = Turn(Admission(uuid=device.uuid) if timed else None)
        self._whole = timed and not backend(device.kind).queues_calls
        """Whether a compiler disturbs who times: on a CPU they share processors."""
        self._pool = ThreadPoolExecutor(max_workers=jobs)
        self._builders: list[Builder] = []
        self._lock = threading.Lock()
        self._failed: dict[str, Failed] = {}
        self._took_s: dict[str, float] = {}

    def start(self, tasks: Sequence[Task]) -> None:
        """Hand on what needs no build, and have the rest built. The tasks have equal options."""
        groups: dict[BuildKey, list[Task]] = defaultdict(list)
        for task in tasks:
            if task.refused is not None:
                self._tell(self._dispatcher.built(task, UnitResult(outcome=task.refused)))
            elif self._device.kind not in task.solution.devices:
                runs_on = ", ".join(task.solution.devices)
                reason = f"runs on {runs_on}, not on {self._device.kind}"
                refused = UnitResult(outcome=Failed(status=Status.SKIPPED, reason=reason))
                self._tell(self._dispatcher.built(task, refused))
            elif sources.compiles(task.solution.path, task.solution.builtin):
                groups[task.problem.path, task.solution.path, task.solution.variant].append(task)
            else:
                self._dispatcher.built(task)
        for group in groups.values():
            self._pool.submit(self._guarded, group)

    def stop(self) -> None:
        """Kill what builds, for good; returns when nothing of it runs any more."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            builders = [*self._builders]
        for builder in builders:
            builder.stop()
        self._pool.shutdown(wait=True)

    def failure(self, task: Task) -> Failed | None:
        """Return why a solution could not be constructed, which may be the problem's own fault."""
        with self._lock:
            return self._failed.get(task.key)

    def forget(self, task: Task) -> None:
        """Drop what is known of a task that has its verdict."""
        with self._lock:
            self._failed.pop(task.key, None)

    def took_s(self, task: Task) -> float | None:
        """Return the seconds of a task's build, once: it counts for the first unit."""
        with self._lock:
            return self._took_s.pop(task.key, None)

    def _guarded(self, group: Sequence[Task]) -> None:
        try:
            self._build(group)
        except BaseException as error:  # noqa: BLE001 - raised again by the thread that asked
            self._tell(error)

    def _build(self, group: Sequence[Task]) -> None:
        first = group[0]
        if self._dispatcher.why_stopped():
            return
        problem, solution, options = first.problem, first.solution, first.options
        cases = tuple(task.case for task in group)
        cached = cache.entry_for(solution.path, solution.variant, self._device.key, cache_dir())
        others = case_selection.others(problem, options, cases)
        wanted = case_selection.rehearsals(problem, cases, others.values(), self._shapes.of(first).cases)
        seen = cached.rehearsed()
        missing = {key: rehearsal for key, rehearsal in wanted.items() if key not in seen}
        failure, began = None, time.monotonic()
        if not cached.is_built or missing:
            device, turn = self._device, self._turn
            builder = Builder(problem, options, device, self._rung, self._scratch, rehearsing=turn)
            with self._lock:
                self._builders.append(builder)
            if self._dispatcher.why_stopped():
                return
            with self._turn if self._whole else contextlib.nullcontext():
                failure = builder.build(solution, cached, missing)
            with self._lock:
                self._builders.remove(builder)
        if not self._dispatcher.why_stopped():
            self._hand_on(group, failure, time.monotonic() - began)

    def _hand_on(self, group: Sequence[Task], failure: Failed | None, elapsed_s: float) -> None:
        for number, task in enumerate(group):
            stage_s = {} if number else {"build": elapsed_s}
            if failure is not None and failure.status is not Status.INIT_FAILED:
                self._tell(self._dispatcher.built(task, UnitResult(outcome=failure, stage_s=stage_s)))
                continue
            with self._lock:
                self._took_s |= {task.key: elapsed_s} if not number else {}
                self._failed |= {task.key: failure} if failure is not None else {}
            self._dispatcher.built(task)
