"""What other programs take of the processors, as the kernel counts it, while the candidate is stopped."""

import os
import time
from pathlib import Path
from typing import Self

from kbench.sandbox.process_table import members

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
USER, NICE, SYSTEM, STEAL = 1, 2, 3, 8
"""Places in the first line of /proc/stat (proc_stat(5)); interrupts are left out, since anybody's work causes them."""
UTIME, STIME = 11, 12
"""Places in /proc/PID/stat behind the name (proc_pid_stat(5))."""


class OtherLoad:
    """The share of all processors that others took within its `with` blocks: not this process, nor the tree of `pid`.

    A candidate is to be stopped meanwhile: what ended of its tree can no longer be told from a stranger's work.
    """

    def __init__(self, pid: int):
        self._pid = pid
        self._began = 0.0
        self._before = 0
        self._elapsed_s = 0.0
        self._ticks = 0

    def __enter__(self) -> Self:
        self._began, self._before = time.monotonic(), self._of_others()
        return self

    def __exit__(self, *_: object) -> None:
        self._elapsed_s += time.monotonic() - self._began
        self._ticks += self._of_others() - self._before

    @property
    def share(self) -> float:
        """From 0 for an idle machine to 1; 0 where the kernel does not tell."""
        all_ticks = self._elapsed_s * TICKS_PER_S * (os.cpu_count() or 1)
        return min(1.0, max(0.0, self._ticks / max(1.0, all_ticks)))

    def _of_others(self) -> int:
        own = {os.getpid(), *(process.pid for process in members(self._pid))}
        return busy_ticks(_read("stat")) - sum(own_ticks(_read(f"{pid}/stat")) for pid in own)


def busy_ticks(text: str) -> int:
    """Return the ticks of all programs in /proc/stat, those of other virtual machines included."""
    places = text.partition("\n")[0].split()
    return sum(int(places[place]) for place in (USER, NICE, SYSTEM, STEAL) if place < len(places))


def own_ticks(text: str) -> int:
    """Return the ticks of a process in /proc/PID/stat, all its threads included."""
    places = text.rpartition(")")[2].split()
    return sum(int(places[place]) for place in (UTIME, STIME) if place < len(places))


def _read(name: str) -> str:
    try:
        return Path("/proc", name).read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""  # it has ended
