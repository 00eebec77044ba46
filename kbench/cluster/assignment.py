"""The rule of a cluster: which member gets which task. Pure."""

from collections.abc import Collection, Sequence

from kbench.sweep.ladder import next_batch
from kbench.sweep.task import Task

MOST_LOSSES = 3
"""Chosen. Members that may die while one task is judged, which is then refused. After the first it is judged alone."""


def assign(
    waiting: Sequence[Task],
    lost: Collection[str],
    flying: Sequence[str],
    problem: str | None,
    *,
    lanes: int,
    all_lanes: int,
) -> list[Task]:
    """Return the tasks that a member with `lanes` lanes gets next; `all_lanes` is the number of those of all members.

    `flying` are the keys of its tasks, `problem` is the path of the problem of its last one. A member is kept one batch
    ahead of its lanes. A task that was `lost` with a member comes last. It goes to an idle member, which gets no other
    task until the verdict.
    """
    if any(key in lost for key in flying) or len(flying) > lanes:
        return []
    fresh = [task for task in waiting if task.key not in lost]
    if fresh:
        return next_batch(fresh, [problem] if problem else [], all_lanes)
    return [*waiting[:1]] if not flying else []
