"""The threads that PyTorch computes with in a process; each begins a burst of calls on a processor of its own.

Otherwise both threads of a softmax run on one of two processors of a virtual machine, in most calls.
"""

import os
from pathlib import Path

TASKS = Path("/proc/self/task")
CHUNK = 1 << 15
"""Elements from which PyTorch gives work to one more thread (ATen, GRAIN_SIZE)."""
CALLING = 0
"""Number of the calling thread in calls of the scheduler."""


class ComputeThreads:
    """The threads of PyTorch's parallel operations in this process, listed before a solution starts threads."""

    def __init__(self) -> None:
        import torch

        before = _tasks()
        self._work = torch.empty(CHUNK * torch.get_num_threads())
        self._work.zero_()  # the first parallel operation starts them
        self._threads = [CALLING, *(thread for thread in sorted(_tasks() - before) if _may_move(thread))]
        self._processors = sorted(os.sched_getaffinity(0))

    def spread(self) -> None:
        """Wake each thread on a processor of its own, which it and threads that it starts may leave."""
        present = {CALLING, *_tasks()}
        allowed = {thread: os.sched_getaffinity(thread) for thread in self._threads if thread in present}
        for number, thread in enumerate(allowed):
            os.sched_setaffinity(thread, {self._processors[number % len(self._processors)]})
        self._work.zero_()  # a sleeping thread moves when it wakes up, and waits there for more work
        for thread, where in allowed.items():
            os.sched_setaffinity(thread, where)


def _may_move(thread: int) -> bool:
    """Return whether this process may move a thread: without a PID namespace the sandbox allows itself only."""
    try:
        os.sched_setaffinity(thread, os.sched_getaffinity(thread))
    except PermissionError:
        return False
    return True


def _tasks() -> set[int]:
    return {int(task.name) for task in TASKS.iterdir()}
