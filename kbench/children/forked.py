"""Handles on forks, of a nursery and of this process itself, with what a child process needs of Popen's interface."""

import contextlib
import os
import select
import signal
import subprocess
import threading
import time

BIRTH_TIMEOUT_S = 60.0
POLL_INTERVAL_S = 0.005
NOBODY = -1
"""The pid of no process."""


class Fork:
    """A process that a nursery forks. The nursery tells its pid and, in the end, its exit code, a line each."""

    def __init__(self, told: int, output: int):
        self.stdout = os.fdopen(output, "rb", buffering=0)
        os.set_blocking(told, False)
        self._told = os.fdopen(told, "rb", buffering=0)
        self._text = b""
        self._silent = False
        self._lock = threading.Lock()

    @property
    def pid(self) -> int:
        """The pid, once there is one; NOBODY if the nursery ended first."""
        self._listen(1, BIRTH_TIMEOUT_S)
        return next(iter(self._numbers()), NOBODY)

    @property
    def is_born(self) -> bool:
        """Whether the nursery has told a pid."""
        self._listen(1)
        return bool(self._numbers())

    @property
    def is_lost(self) -> bool:
        """Whether the nursery ended, or could not fork, so that nobody tells how this process ends."""
        return self._silent and len(self._numbers()) < 2

    def poll(self, timeout_s: float = 0.0) -> int | None:
        """Return the exit code, or None while the process lives. One that is lost counts as killed."""
        self._listen(2, timeout_s)
        silent, numbers = self._silent, self._numbers()  # in this order: another thread may listen, too
        if len(numbers) > 1:
            return numbers[1]
        return -int(signal.SIGKILL) if silent else None

    def wait(self, timeout_s: float) -> int:
        """Return the exit code. Raises subprocess.TimeoutExpired."""
        code = self.poll(timeout_s)
        if code is None:
            raise subprocess.TimeoutExpired("worker", timeout_s)
        return code

    def _numbers(self) -> list[int]:
        return [int(line) for line in self._text.split(b"\n")[:-1]]

    def _listen(self, wanted: int, timeout_s: float = 0.0) -> None:
        """Take in what the nursery tells until it is that many numbers, nobody will tell more, or time is up."""
        deadline = time.monotonic() + timeout_s
        while len(self._numbers()) < wanted and not self._silent:
            if not select.select([self._told], [], [], max(0.0, deadline - time.monotonic()))[0]:
                return
            with self._lock:
                said = self._told.read(4096)  # None where another thread was quicker
                self._text += said or b""
                self._silent = self._silent or said == b""


class OwnFork:
    """A process that this one forked itself."""

    def __init__(self, pid: int, output: int):
        self.pid = pid
        self.stdout = os.fdopen(output, "rb", buffering=0)
        self._code: int | None = None
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        """Return the exit code, or None while the process lives. One that somebody else reaped counts as killed."""
        with self._lock:
            if self._code is None:
                pid, status = self.pid, int(signal.SIGKILL)
                with contextlib.suppress(ChildProcessError):
                    pid, status = os.waitpid(self.pid, os.WNOHANG)
                self._code = os.waitstatus_to_exitcode(status) if pid else None
            return self._code

    def wait(self, timeout_s: float) -> int:
        """Return the exit code. Raises subprocess.TimeoutExpired."""
        deadline = time.monotonic() + timeout_s
        while (code := self.poll()) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("nursery", timeout_s)
            time.sleep(POLL_INTERVAL_S)
        return code
