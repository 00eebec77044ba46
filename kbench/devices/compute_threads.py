"""The threads that PyTorch computes with in a process, and how they begin a burst of calls: a processor each.

On a virtual machine, both threads of a softmax else run on one of two processors, in most calls (docs/timing.md).
"""

import os
from collections.abc import Iterable
from pathlib import Path

TASKS = Path("/proc/self/task")
TOPOLOGY = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
CHUNK = 1 << 15
"""Elements from which PyTorch gives work to one more thread (ATen, GRAIN_SIZE)."""
CALLING = 0
"""The number by which a thread names itself to the scheduler."""


class ComputeThreads:
    """The threads of PyTorch's parallel operations in this process; to be made before a solution has any of its own."""

    def __init__(self) -> None:
        import torch

        before = _tasks()
        self._work = torch.empty(CHUNK * torch.get_num_threads())
        self._work.zero_()  # the first parallel operation starts them
        self._threads = [CALLING, *(thread for thread in sorted(_tasks() - before) if _may_move(thread))]
        self._processors = by_core(os.sched_getaffinity(0))

    def spread(self) -> None:
        """Have each thread awake on a processor of its own, and free to leave it, as are threads that it starts."""
        present = {CALLING, *_tasks()}
        allowed = {thread: os.sched_getaffinity(thread) for thread in self._threads if thread in present}
        for number, thread in enumerate(allowed):
            os.sched_setaffinity(thread, {self._processors[number % len(self._processors)]})
        self._work.zero_()  # a thread that sleeps goes to its processor when it wakes up, and waits there for more work
        for thread, where in allowed.items():
            os.sched_setaffinity(thread, where)


def by_core(processors: Iterable[int]) -> list[int]:
    """Return processors in an order in which the second thread of a core comes after the first ones of all cores."""
    return sorted(processors, key=lambda number: (_place_in_core(number), number))


def _place_in_core(number: int) -> int:
    try:
        siblings = Path(TOPOLOGY.format(number)).read_text()
    except OSError:
        return 0  # the machine does not tell
    return sum(first < number for first in _numbers(siblings))


def _numbers(text: str) -> set[int]:
    """Return the numbers of a list of the kernel, such as `0-1,8`."""
    ends = [part.partition("-")[::2] for part in text.strip().split(",")]
    return {number for first, last in ends for number in range(int(first), int(last or first) + 1)}


def _may_move(thread: int) -> bool:
    """Return whether this process may: the sandbox forbids all but oneself where there is no PID namespace."""
    try:
        os.sched_setaffinity(thread, os.sched_getaffinity(thread))
    except PermissionError:
        return False
    return True


def _tasks() -> set[int]:
    return {int(task.name) for task in TASKS.iterdir()}
