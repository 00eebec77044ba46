"""Handle of a process that was forked, with what a child process needs of Popen's interface."""

import os
import select
import signal
import subprocess
import threading
import time

BIRTH_TIMEOUT_S = 60.0
NOBODY = -1
"""The pid of no process."""


class Fork:
    """A forked process. A pipe has its pid and, where a nursery forked it, in the end its exit code, a line each.

    The pipe closes when nobody is left who could write the next line.
    """

    def __init__(self, pipe: int, output: int):
        self.stdout = os.fdopen(output, "rb", buffering=0)
        os.set_blocking(pipe, False)
        self._pipe = os.fdopen(pipe, "rb", buffering=0)
        self._text = b""
        self._is_closed = False
        self._lock = threading.Lock()

    @property
    def pid(self) -> int:
        """The pid, once there is one; NOBODY if the nursery ended first."""
        self._read(1, BIRTH_TIMEOUT_S)
        return next(iter(self._numbers()), NOBODY)

    @property
    def is_born(self) -> bool:
        """True once there is a pid."""
        self._read(1)
        return bool(self._numbers())

    @property
    def is_lost(self) -> bool:
        """True if the nursery ended, or could not fork, so that the exit code remains unknown."""
        return self._is_closed and len(self._numbers()) < 2

    def poll(self, timeout_s: float = 0.0) -> int | None:
        """Return the exit code, or None while the process lives. An unknown one counts as that of a killed process."""
        self._read(2, timeout_s)
        is_closed, numbers = self._is_closed, self._numbers()  # in this order: another thread may read, too
        if len(numbers) > 1:
            return numbers[1]
        return -int(signal.SIGKILL) if is_closed else None

    def wait(self, timeout_s: float) -> int:
        """Return the exit code. Raises subprocess.TimeoutExpired."""
        code = self.poll(timeout_s)
        if code is None:
            raise subprocess.TimeoutExpired("fork", timeout_s)
        return code

    def _numbers(self) -> list[int]:
        return [int(line) for line in self._text.split(b"\n")[:-1]]

    def _read(self, wanted: int, timeout_s: float = 0.0) -> None:
        """Read the pipe until it gave that many numbers, it is closed, or time is up."""
        deadline = time.monotonic() + timeout_s
        while len(self._numbers()) < wanted and not self._is_closed:
            if not select.select([self._pipe], [], [], max(0.0, deadline - time.monotonic()))[0]:
                return
            with self._lock:
                text = self._pipe.read(4096)  # None where another thread was quicker
                self._text += text or b""
                self._is_closed = self._is_closed or text == b""
