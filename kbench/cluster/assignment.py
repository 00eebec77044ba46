"""Which member of a cluster gets which task, and who is to blame when a member dies: pure rules."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kbench.sweep.ladder import next_batch
from kbench.sweep.task import Task

MOST_LOSSES = 3
"""Members that may die while one task is judged. After the first loss it is judged alone, so that it is the cause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What a member does now."""

    flying: Sequence[str]
    """Keys of its tasks."""
    lanes: int
    problem: str | None
    """Path of the problem of its last task."""


def assign(waiting: Sequence[Task], losses: Mapping[str, int], load: Load, lanes: int) -> list[Task]:
    """Return the tasks that a member gets next; `lanes` is the number of lanes of all members.

    A member is kept one batch ahead of its lanes. A task that was lost with a member comes last, and goes to a member
    that does nothing else, which gets nothing else until the verdict.
    """
    if any(losses.get(key) for key in load.flying) or len(load.flying) > load.lanes:
        return []
    fresh = [task for task in waiting if not losses.get(task.key)]
    if fresh:
        return next_batch(fresh, load.problem, lanes)
    return [*waiting[:1]] if not load.flying else []


def is_to_blame(losses: int) -> bool:
    """Return whether a task is refused because so many members died while it was judged."""
    return losses >= MOST_LOSSES
