"""The gate of a worker's device queue: a page of host memory that the judge shares with it, and two flags in it.

The worker queues: wait until `open` holds the round's number, its calls, write the number into `done`. Both are stream
memory operations (CUDA Driver API, "Stream Memory Operations"), so that nothing spins on the device while the judge
writes the inputs. A worker can write anything into the page. If it opens the gate early, its calls read inputs that are
not there yet. If it writes `done` early, the judge reads results that are not complete yet.
"""

import ctypes
import fcntl
import mmap
import os
import time
from collections.abc import Callable

PAGE_BYTES = 4096
LOOK_NS = 20_000_000
"""Time between two checks that the worker still works."""
OPEN, DONE = 0, 16
"""Number of each flag's 32-bit word: every flag has a cache line of its own."""


class Gate:
    """The judge's end of the page."""

    def __init__(self) -> None:
        self.fd = os.memfd_create("kbench-gate", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.fd, PAGE_BYTES)
        # Without the seals a worker could shrink the file and kill the judge by SIGBUS.
        fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        self._page = mmap.mmap(self.fd, PAGE_BYTES)
        self._words = (ctypes.c_uint32 * (PAGE_BYTES // 4)).from_buffer(self._page)
        self.number = 0
        """Number of the present round."""

    def next_round(self) -> int:
        """Return the number of a new round."""
        self.number += 1
        return self.number

    def open(self) -> None:
        """Let what is queued begin."""
        self._words[OPEN] = self.number

    def open_and_wait(self, timeout_s: float, is_over: Callable[[], bool] = lambda: False) -> int | None:
        """Open the gate; return the ns until the worker's flag is seen.

        None where it is not within the time, or where it `is_over` for another reason.
        """
        words, number = self._words, self.number
        started = time.perf_counter_ns()
        limit, look = started + int(timeout_s * 1e9), started + LOOK_NS
        words[OPEN] = number
        while words[DONE] != number:
            now = time.perf_counter_ns()
            if now > look:
                look += LOOK_NS
                if now > limit or is_over():
                    # An honest worker writes both in this order, and this process may have slept in between.
                    return now - started if words[DONE] == number else None
        return time.perf_counter_ns() - started

    def close(self) -> None:
        """Close the page; a worker keeps its own mapping."""
        del self._words
        self._page.close()
        os.close(self.fd)
