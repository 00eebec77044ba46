"""Rules for a cluster: which member gets which task, and when a task is refused because members died. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kbench.sweep.ladder import next_batch
from kbench.sweep.task import Task

MOST_LOSSES = 3
"""Chosen. Members that may die while one task is judged. After the first loss the task is judged alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The current work of a member."""

    flying: Sequence[str]
    """Keys of its tasks."""
    lanes: int
    problem: str | None
    """Path of the problem of its last task."""


def assign(waiting: Sequence[Task], losses: Mapping[str, int], load: Load, lanes: int) -> list[Task]:
    """Return the tasks that a member gets next; `lanes` is the number of lanes of all members.

    A member is kept one batch ahead of its lanes. A task that was lost with a member comes last. It goes to an idle
    member, which gets no other task until the verdict.
    """
    if any(losses.get(key) for key in load.flying) or len(load.flying) > load.lanes:
        return []
    fresh = [task for task in waiting if not losses.get(task.key)]
    if fresh:
        return next_batch(fresh, [load.problem] if load.problem else [], lanes)
    return [*waiting[:1]] if not load.flying else []


def is_to_blame(losses: int) -> bool:
    """Return whether a task is refused after `losses` members died while they judged it."""
    return losses >= MOST_LOSSES
