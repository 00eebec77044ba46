"""Shapes that problems do not list, found by a judge once for each problem's source and case."""

import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from kbench.build import manifest
from kbench.catalog import case_selection
from kbench.catalog.registry import Entry
from kbench.catalog.shapes import Derived
from kbench.core.events import StageFinished, StageStarted
from kbench.core.model import Case
from kbench.engine.evaluator import Evaluator
from kbench.engine.task import Task
from kbench.engine.unit import key_of


class DerivedShapes:
    """The shapes at which solutions are verified beside the problem's cases; lanes and builders share them.

    `own` is an evaluator for builds, which begin before a lane has opened the problem.
    """

    def __init__(self, own: Evaluator | None = None):
        self._own = own
        self._found: dict[tuple[Path, str, str], Derived] = {}
        self._lock = threading.Lock()

    def of(self, task: Task, lane: Evaluator | None = None) -> Derived:
        """Return the shapes of a task, found by the judge of a lane that has its problem open, or by one for builds.

        The sizes are those of the first case; the other constants, such as a dtype, are those of the task's own case.
        """
        if (key := _key(task)) is None:
            return Derived()
        found = self._changes(key, task, lane)
        return replace(found, cases=[{**task.case.overrides, **changed} for changed in found.cases])

    def _changes(self, key: tuple[Path, str, str], task: Task, lane: Evaluator | None) -> Derived:
        if lane is not None:
            return self._found.get(key) or self._found.setdefault(key, _derive(lane, task.first_case, [task.solution]))
        with self._lock:
            if key not in self._found:
                assert self._own is not None, "a run finds its shapes before it builds"
                self._own.turn_to(task.problem, [], task.options)
                self._found[key] = _derive(self._own, task.first_case, [])
            return self._found[key]

    def interrupt(self) -> None:
        """Kill the judge that is for nothing else; from another thread than the one that waits for it."""
        if self._own is not None:
            self._own.interrupt()

    def close(self) -> None:
        """End the judge that is for nothing else."""
        with self._lock:
            if self._own is not None:
                self._own.close()


def _key(task: Task) -> tuple[Path, str, str] | None:
    """Return what the shapes of a task depend on; None where the problem lists enough."""
    if not case_selection.needs_derived_shapes(task.problem, task.solution, task.options.level):
        return None
    source = manifest.identity(task.problem.path)  # a server's problem may be edited
    return task.problem.path, source, key_of(task.first_case)


def _derive(evaluator: Evaluator, case: Case, expected: Sequence[Entry]) -> Derived:
    evaluator.start(expected)
    began, report = time.monotonic(), evaluator.guard.report
    report(StageStarted(stage="shapes", case=case.name))
    derived = evaluator.derive(expected, case)
    report(StageFinished(stage="shapes", case=case.name, elapsed_s=time.monotonic() - began))
    return derived
