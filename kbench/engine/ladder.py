"""Rules of what is judged next: pure functions of tasks and their results."""

from collections.abc import Collection, Mapping, Sequence

from kbench.core.model import Failed, Status
from kbench.engine.task import Task, TaskVerdict
from kbench.engine.unit import UnitResult, is_of
from kbench.host.health import PROBED_AFTER
from kbench.process.child_error import KILLED, STARVED

MOST_ATTEMPTS = 3
"""A unit that breaks its judge three times is the cause itself."""
MOST_KILLED = 2
"""Attempts at a unit whose worker was killed or fell silent: the machine may do that once, a solution every time."""
BATCH = 8
"""Chosen. Solutions of one problem that a lane takes at a time: with more, other lanes are idle at the end."""


def unfinished(
    tasks: Sequence[Task], known: Mapping[str, Sequence[UnitResult]], again: Collection[Status] = ()
) -> tuple[list[Task], dict[str, tuple[UnitResult, ...]]]:
    """Return the tasks that are left to do, and by key the results that are kept.

    Failures of kbench itself are judged again, and what has a status of `again`.
    """
    left: list[Task] = []
    kept: dict[str, tuple[UnitResult, ...]] = {}
    for task in tasks:
        results = tuple(known.get(task.key, ()))
        results = results if all(is_of(result, task.problem, task.solution) for result in results) else ()
        done = TaskVerdict(task=task, results=results).is_done
        retried = done and results[-1].status in {Status.HARNESS_ERROR, *again}
        if retried or not done:
            left.append(task)
        kept[task.key] = () if retried else results
    return left, kept


def may_retry(result: UnitResult, attempts: int, *, device_sick: bool) -> bool:
    """Return whether a unit is tried again: its result is no verdict, or one that the machine can cause."""
    reason = result.outcome.reason if isinstance(result.outcome, Failed) else ""
    if result.status is Status.PROTOCOL_ERROR or KILLED.search(reason) or reason == STARVED:
        return attempts < MOST_KILLED
    if attempts >= MOST_ATTEMPTS or result.status is Status.PASSED:
        return False
    return result.status is Status.HARNESS_ERROR or (device_sick and result.status in SHAKEN)


SHAKEN = PROBED_AFTER - {Status.HARNESS_ERROR} | {Status.OUT_OF_MEMORY, Status.NOT_VERIFIED}
"""Statuses that a broken device can cause."""


def next_batch(ready: Sequence[Task], problem: str, lanes: int, most: int = BATCH) -> list[Task]:
    """Choose the next tasks of a lane, of equal options: of its open `problem`, else those that wait longest.

    The last tasks are spread over the lanes.
    """
    if not ready:
        return []
    first = next((task for task in ready if str(task.problem.path) == problem), ready[0])
    same = [task for task in ready if (task.problem.path, task.options) == (first.problem.path, first.options)]
    return same[: max(1, min(most, -(-len(same) // max(1, lanes))))]
