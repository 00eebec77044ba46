"""What a sweep does next: pure rules over what is known of its tasks."""

from collections.abc import Collection, Mapping, Sequence

from kbench.core.model import Status
from kbench.host.judge_process import TOO_LARGE
from kbench.sweep.task import Budgets, Halt, Task, state_of
from kbench.units.unit import UnitResult

MOST_ATTEMPTS = 3
"""A unit that broke its judge three times broke it by itself."""
BATCH = 8
"""Chosen. Solutions of one problem that a lane takes at a time: more keep other lanes idle at the end."""
VERIFYING = frozenset({"open", "load", "verify", "sanitize"})
"""Stages that count against the budget for verifying; `wait` counts for none."""


def is_done(task: Task, results: Sequence[UnitResult]) -> bool:
    """Say whether a task needs no further unit."""
    return bool(results) and (task.refused is not None or not state_of(task, results).wants_more(task.options))


def unfinished(
    tasks: Sequence[Task],
    known: Mapping[str, Sequence[UnitResult]],
    *,
    retry_failed: bool = False,
    only: Collection[Status] = (),
) -> tuple[list[Task], dict[str, tuple[UnitResult, ...]]]:
    """Return the tasks that are left to do, and for each key what stays of what is known.

    What ended by kbench's own fault is judged anew in any case. With `only`, those alone whose verdict has one of these
    statuses; with `retry_failed`, those as well that did not pass.
    """
    left: list[Task] = []
    kept: dict[str, tuple[UnitResult, ...]] = {}
    for task in tasks:
        results = tuple(known.get(task.key, ()))
        done = is_done(task, results)
        status = results[-1].status if results else None
        wanted = only or (set(Status) - {Status.PASSED} if retry_failed else {Status.HARNESS_ERROR})
        again = done and status in wanted
        if again:
            results = ()
        elif done:
            kept[task.key] = results
            continue
        if again or not only:
            left.append(task)
        kept[task.key] = results
    return left, kept


def may_retry(result: UnitResult, attempts: int, *, device_sick: bool) -> bool:
    """Say whether a unit is tried again after so many attempts: what says nothing of the solution is.

    On a device that turned out sick, that holds for whatever it failed with but a verdict on values: nobody knows which
    of those that ran there made it so.
    """
    if attempts >= MOST_ATTEMPTS or result.status is Status.PASSED:
        return False
    return result.status is Status.HARNESS_ERROR or (device_sick and result.status in SHAKEN)


SHAKEN = frozenset(
    {
        Status.ILLEGAL_ACCESS,
        Status.LAUNCH_FAILED,
        Status.CRASHED,
        Status.CALL_TIMEOUT,
        Status.IMPORT_TIMEOUT,
        Status.TOTAL_TIMEOUT,
        Status.OUT_OF_MEMORY,
        Status.REFERENCE_FAILED,
        Status.NOT_VERIFIED,
    }
)
"""Ends that a sick device can bring about."""


def budget_s(stage: str, budgets: Budgets) -> float | None:
    """Return how long a stage may take; None for one that has no limit."""
    if stage in VERIFYING:
        return budgets.verify_s
    return budgets.time_s if stage == "time" else None


def does_not_fit(result: UnitResult) -> bool:
    """Say whether a case was too large for the device, whatever the solution."""
    return result.status is Status.NOT_VERIFIED and getattr(result.outcome, "reason", "").startswith(TOO_LARGE)


def halted(failures: int, halt: Halt) -> str:
    """Say why a sweep ends here; empty where it goes on."""
    reached = halt.failures is not None and failures >= halt.failures
    return f"{failures} failed, as many as were allowed" if reached else ""


def counts_as_failure(result: UnitResult) -> bool:
    """Say whether a verdict is against the solution."""
    return result.status is not Status.PASSED and result.is_verdict


def next_batch(ready: Sequence[Task], problem: str | None, lanes: int) -> list[Task]:
    """Choose what a lane that has `problem` open does next: more of it, else of the problem that waits longest.

    All of a batch have equal options. The last tasks are spread over the lanes.
    """
    if not ready:
        return []
    first = next((task for task in ready if str(task.problem.path) == problem), ready[0])
    same = [task for task in ready if (task.problem.path, task.options) == (first.problem.path, first.options)]
    return same[: max(1, min(BATCH, -(-len(same) // max(1, lanes))))]
