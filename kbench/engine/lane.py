"""One lane of a device, the only loop over units: it judges tasks, and never lets one of them end the rest."""

import contextlib
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from kbench.catalog.registry import Entry
from kbench.core.model import Environment, Failed, Finding, Outcome, Passed, Status
from kbench.devices.backend import backend
from kbench.engine.derived_shapes import DerivedShapes
from kbench.engine.dispatch import Dispatcher
from kbench.engine.evaluator import Evaluator
from kbench.engine.guard import Guard
from kbench.engine.ladder import may_retry
from kbench.engine.task import Finished, Retried, Task, TaskVerdict, with_own_share
from kbench.engine.unit import UNIT_TIMEOUT_S, Stages, TimeLeft, UnitResult
from kbench.host.builder import MAYBE_THE_PROBLEM
from kbench.host.health import PROBED_AFTER
from kbench.storage.settings import cache_dir

MIN_FREE_BYTES = 64 << 20
"""Chosen. A build of an extension writes up to some ten MB, and one that lacks room leaves some behind."""
NEEDS_ROOM = frozenset({Status.BUILD_FAILED, Status.IMPORT_FAILED, Status.INIT_FAILED, Status.RAISED})
"""Statuses of a solution that could not write a file."""


@dataclass(slots=True)
class Lane:
    """Judges one unit at a time on one device."""

    evaluator: Evaluator
    guard: Guard
    dispatcher: Dispatcher
    shapes: DerivedShapes
    is_run: bool = False
    """It is of a run: a unit has no time limit of its own, and kernels are named."""
    isolation: str = ""
    """Name of the sandbox's rung."""
    notes: tuple[Finding, ...] = ()
    """Findings that every pass gets: about the device."""
    environment: Environment | None = None
    """Machine and device of the last unit."""
    _left: dict[tuple[str, str], TimeLeft] = field(default_factory=dict)
    """Time that the solutions of the batch have left, by path and variant."""

    def __post_init__(self) -> None:
        self.guard.interrupts.append(self.evaluator.interrupt)

    def serve(self) -> None:
        """Take tasks until there are none, all is stopped or the device is gone."""
        try:
            while self.guard.is_fit() and (batch := self.dispatcher.take(self.evaluator.problem_path)):
                self.judge(batch)
        finally:
            self.evaluator.close()

    def judge(self, batch: Sequence[Task]) -> None:
        """Judge tasks of one problem with equal options, case by case; give back those without a verdict."""
        solutions = [task.solution for task in batch if task.refused is None]
        self._left = {}
        if solutions:
            self.evaluator.turn_to(batch[0].problem, solutions, batch[0].options)
        waiting = list(batch)
        while waiting and self._goes_on():
            same = [task for task in waiting if task.case == waiting[0].case]
            waiting = [task for task in waiting if task.case != same[0].case]
            self._judge_case(same, waiting)
        self.dispatcher.give_back(batch)

    def _goes_on(self) -> bool:
        return not self.dispatcher.why_stopped() and self.guard.is_fit()

    def _judge_case(self, tasks: Sequence[Task], next_case: Sequence[Task]) -> None:
        """Judge tasks of one case, process after process, each with fresh workers, until all have verdicts.

        The order alternates, so that no solution profits from its position.
        """
        standing = {task.key: TaskVerdict(task=task, results=self.dispatcher.results(task)) for task in tasks}
        turn = min(len(known.results) for known in standing.values())
        while open_tasks := [task for task in tasks if standing[task.key].wants_more]:
            order = open_tasks[:: -1 if turn % 2 else 1]
            for number, task in enumerate(order):
                again = [] if task.options.verify_only else order[::-1]
                later = [other for other in (*order[number + 1 :], *again) if standing[other.key].wants_more]
                following = [other.solution for other in (*later, *next_case) if other.refused is None]
                result = self._result(standing[task.key], following) if self._goes_on() else None
                if result is None:
                    return
                verdict = standing[task.key] = self.dispatcher.record(task, result)
                if verdict.is_done:
                    self.guard.report(Finished(verdict=verdict))
                elif (estimated := verdict.estimate()) is not None:
                    self.guard.report(estimated)
            turn += 1

    def _result(self, known: TaskVerdict, following: Sequence[Entry]) -> UnitResult | None:
        """Judge the next unit of a task, and add what the lane knows; None if nothing more is started here."""
        task = known.task
        if task.refused is not None:
            result = UnitResult(outcome=self._with_room(task.refused))
        elif task.unbuilt is not None:
            result = UnitResult(outcome=self._unbuilt(task, task.unbuilt))
        else:
            judged = self._unit(known, following)
            if judged is None:
                return None
            result = judged
        if task.built_s is not None and not known.results:  # it is built once for all cases and processes
            result = replace(result, stage_s={"build": task.built_s, **result.stage_s})
        if isinstance(result.outcome, Passed) and self.notes:
            noted = replace(result.outcome, findings=(*result.outcome.findings, *self.notes))
            result = replace(result, outcome=noted)
        self.environment = result.environment or self.environment
        result = replace(result, environment=self.environment, isolation=self.isolation)
        return self._with_own_share(known, result)

    def _unbuilt(self, task: Task, failure: Failed) -> Failed:
        """Return the failure of a build; one that constructs no model may be the problem's own."""
        outcome = self.evaluator.explain(failure, task.solution, task.case)
        if failure.status in MAYBE_THE_PROBLEM:
            outcome = self.evaluator.why_not(task.case, [task.solution]) or outcome
        self.guard.look(failure.status)
        return outcome

    def _with_own_share(self, known: TaskVerdict, result: UnitResult) -> UnitResult:
        """Add whose kernels a call of a solution launches, after its last process; a failure changes no verdict."""
        after = replace(known, results=(*known.results, result))
        if not self.is_run or not after.is_done or not isinstance(after.outcome, Passed) or not after.outcome.timings:
            return result
        unit = after.unit(self.shapes.of(known.task, self.evaluator))
        stages = Stages(unit, self.guard.report, result.stage_s)
        share = self.evaluator.own_share(stages)
        if share is None or not isinstance(result.outcome, Passed):
            return result
        return replace(result, outcome=with_own_share(result.outcome, share), stage_s=stages.seconds)

    def _unit(self, known: TaskVerdict, following: Sequence[Entry]) -> UnitResult | None:
        """Judge the next unit of a task, again after a failure of kbench."""
        task = known.task
        attempts = 0
        while True:
            incidents = self.guard.incidents
            shapes = self.shapes.of(task, self.evaluator)
            left = self._time_left(task)
            result = self.evaluator.evaluate(known.unit(shapes), following, left)
            result = replace(result, outcome=self._with_room(result.outcome))
            attempts += 1
            sick = bool(self.guard.suspect) or self.guard.incidents != incidents
            may_have_harmed = result.status in PROBED_AFTER and backend(self.guard.device.kind).has_own_memory
            if result.status is Status.HARNESS_ERROR or may_have_harmed:
                self.evaluator.close()  # the next unit gets a judge that has seen no crash
            if may_retry(result, attempts, device_sick=sick) and not self.dispatcher.why_stopped():
                reason = getattr(result.outcome, "reason", "")
                self.guard.report(Retried(task=task, attempt=attempts, reason=reason))
                if not self.guard.is_fit():
                    return None
                continue
            if self.dispatcher.why_stopped() and result.retryable:
                return None  # its failure may come from the interruption
            return replace(result, attempts=attempts)

    def _time_left(self, task: Task) -> TimeLeft | None:
        """Return the time of the next unit; None where there is no limit."""
        if task.options.timeout_s is not None:
            key = str(task.solution.path), task.solution.variant
            return self._left.setdefault(key, TimeLeft(task.options.timeout_s))
        return None if self.is_run else TimeLeft(UNIT_TIMEOUT_S)

    def _with_room(self, outcome: Outcome) -> Outcome:
        """Return an outcome, as a failure of the machine if its disk is full without anything of the solution."""
        if not isinstance(outcome, Failed) or outcome.status not in NEEDS_ROOM or not full_disk():
            return outcome
        self.evaluator.close()  # their files go with its workers
        if not (full := full_disk()):
            return outcome
        return replace(outcome, status=Status.HARNESS_ERROR, reason=f"{full}: {outcome.reason}")


def full_disk() -> str:
    """Name a folder of the machine, of the cache or of temporary files, whose disk has no room left; empty for none."""
    for folder in (cache_dir(), Path(tempfile.gettempdir())):
        with contextlib.suppress(OSError):  # a folder that is not there yet
            free_bytes = shutil.disk_usage(folder).free
            if free_bytes < MIN_FREE_BYTES:
                return f"no room is left on the disk of {folder} ({free_bytes >> 20} MB are free)"
    return ""
