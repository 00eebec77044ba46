"""One lane of a device: takes tasks, judges their units, and never lets one of them end the sweep."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from kbench.core.events import StageEvent, StageStarted, Waiting
from kbench.core.health import PROBED_AFTER
from kbench.core.model import Case, Failed, Finding, Status
from kbench.devices.admission import signature
from kbench.engine.builds import DerivedShapes
from kbench.engine.dispatch import Dispatcher
from kbench.engine.evaluator import Evaluator
from kbench.engine.guard import Guard
from kbench.engine.ladder import budget_s, does_not_fit, may_retry
from kbench.engine.task import Budgets, Finished, Retried, Task, state_of
from kbench.engine.unit import TimeLeft, Unit, UnitResult, time_left
from kbench.plugins import case_selection
from kbench.plugins.registry import Entry


class StageLimit:
    """Ends the judge when a stage takes too long, without the problem's own code, whose limits blame the problem."""

    def __init__(self, stage: str, limit_s: float, evaluator: Evaluator):
        option = "--time-limit" if stage == "time" else "--verify-limit"
        also = "the reference's own calls included; give it more with"
        self.reason = f"`{stage}` took longer than {limit_s:.3g} s, {also} `{option}`"
        self.is_exceeded = False
        self._over = threading.Event()
        threading.Thread(target=self._watch, args=(limit_s, evaluator), daemon=True).start()

    def cancel(self) -> None:
        """End the limit: the stage is over."""
        self._over.set()

    def _watch(self, more_s: float, evaluator: Evaluator) -> None:
        """Wait for the limit, and then as long as the problem's own code took meanwhile; give up."""
        excused_s = evaluator.problem_s
        while more_s > 0:
            if self._over.wait(more_s):
                return
            problem_s = evaluator.problem_s
            more_s, excused_s = problem_s - excused_s, problem_s
        self.is_exceeded = True
        evaluator.interrupt()


@dataclass(slots=True)
class Lane:
    """Judges one unit at a time on one device."""

    evaluator: Evaluator
    guard: Guard
    dispatcher: Dispatcher
    shapes: DerivedShapes
    budgets: Budgets
    tell: Callable[[Finished | Retried | StageEvent], None]

    def __post_init__(self) -> None:
        self.guard.lanes.append(self.evaluator)

    def serve(self) -> None:
        """Take tasks until there are none, the sweep is stopped or the device is gone."""
        try:
            while self.guard.is_fit() and (batch := self.dispatcher.take(self.evaluator.problem_path)):
                left = self._judge_all(batch)
                if left:
                    self.dispatcher.give_back(left)
        finally:
            self.evaluator.close()

    def _judge_all(self, batch: Sequence[Task]) -> list[Task]:
        solutions = [task.solution for task in batch]
        self.evaluator.turn_to(batch[0].problem, solutions, batch[0].options)
        for number, task in enumerate(batch):
            left = self._judge(task, solutions[number + 1 :])
            if left is not None:
                return [left, *batch[number + 1 :]]
        return []

    def _judge(self, task: Task, following: Sequence[Entry]) -> Task | None:
        """Judge a task unit after unit. Return the task if it is not finished, and None if it has its verdict."""
        began, left = time.monotonic(), time_left(task.options)
        while not self.dispatcher.why_stopped() and self.guard.is_fit():
            result = self._unit(task, following, left)
            if result is None:
                break
            if task.built_s is not None:
                result = replace(result, stage_s={"build": task.built_s, **result.stage_s})
                task = replace(task, built_s=None)
            verdict = self.dispatcher.record(task, result, self.guard.device.uuid)
            if verdict is not None:
                self.tell(Finished(verdict=verdict, elapsed_s=time.monotonic() - began))
                return None
        return task

    def _unit(self, task: Task, following: Sequence[Entry], left: TimeLeft | None) -> UnitResult | None:
        """Judge the next unit of a task, again after a failure of kbench; None if the device is gone."""
        known = self.dispatcher.results(task)
        case = known[-1].case if known else None
        attempts = 0
        while True:
            incidents = self.guard.incidents
            result = self._attempt(task, known, case, following, left)
            attempts += 1
            sick = bool(self.guard.suspect) or self.guard.incidents != incidents
            if result.status in PROBED_AFTER:
                self.evaluator.close()  # the next unit gets a judge that has seen no crash
            if may_retry(result, attempts, device_sick=sick) and not self.dispatcher.why_stopped():
                reason = getattr(result.outcome, "reason", "")
                self.tell(Retried(task=task, attempt=attempts, reason=reason))
                if not self.guard.is_fit():
                    return None
                continue
            if does_not_fit(result) and case is None and (case := _smaller(task)) is not None:
                attempts -= 1
                continue
            if self.dispatcher.why_stopped() and result.retryable:
                return None  # what stopped it may be what it failed of
            return replace(result, attempts=attempts)

    def _attempt(
        self,
        task: Task,
        known: Sequence[UnitResult],
        case: Case | None,
        following: Sequence[Entry],
        left: TimeLeft | None,
    ) -> UnitResult:
        if task.unbuilt is not None:
            return UnitResult(outcome=self.evaluator.why_not(task.case, [task.solution]) or task.unbuilt)
        shapes = self.shapes.of(task, self.evaluator)
        unit = state_of(task, known).unit(task.problem, len(known), task.options, shapes)
        result = self._within_budget(replace(unit, case=case or task.case), following, left)
        if case is not None and not isinstance(result.outcome, Failed):
            message = f"case {task.case.name} does not fit the device; judged at {case.overrides}"
            noted = (*result.outcome.findings, Finding.note("smaller_case", message))
            result = replace(result, outcome=replace(result.outcome, findings=noted))
        return replace(result, case=case)

    def _within_budget(self, unit: Unit, following: Sequence[Entry], left: TimeLeft | None) -> UnitResult:
        """Judge a unit; if a step exceeds its time limit, kill the judge and fail the unit."""
        limits: list[StageLimit] = []
        stages = self.evaluator.evaluate(unit, following, left)
        while True:
            try:
                news = next(stages)
            except StopIteration as end:
                result: UnitResult = end.value
                break
            finally:
                for limit in limits[-1:]:
                    limit.cancel()
            if not (isinstance(news, Waiting) and news.holder.startswith(signature())):  # another lane's turn
                self.tell(news)
            if isinstance(news, StageStarted) and (limit_s := budget_s(news.stage, self.budgets)) is not None:
                limits.append(StageLimit(news.stage, limit_s, self.evaluator))
        exceeded = next((limit for limit in limits if limit.is_exceeded), None)
        if exceeded is not None and result.status is Status.HARNESS_ERROR:
            return replace(result, outcome=Failed(status=Status.TOTAL_TIMEOUT, reason=exceeded.reason))
        return result


def _smaller(task: Task) -> Case | None:
    """Return the problem's case `small`, unless it is the one that does not fit, or is judged as well."""
    case = case_selection.small_case(task.problem, task.options)
    judged = [other.overrides for other in (task.case, *task.beside)]
    return None if case is None or case.overrides in judged else case
