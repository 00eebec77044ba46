"""How long one waits for a device, and whom one tells."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass


class DeviceBusyError(Exception):
    """Others used the device for longer than the caller would wait."""

    def __init__(self, holder: str):
        super().__init__(f"the device is held by {holder}")
        self.holder = holder


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """What a caller does while others use the device: it waits, and is told who they are."""

    timeout_s: float | None = None
    """Until DeviceBusyError; None waits for ever, 0 not at all."""
    on_wait: Callable[[str], None] | None = None
    """Called with the holder's name once the wait begins; not where `timeout_s` is 0. What it raises ends the wait."""
    again_s: float | None = None
    """Seconds between calls of `on_wait`; None calls it once."""


class Patience:
    """One wait that is under way."""

    def __init__(self, wait: Wait):
        self._wait = wait
        self._began_s = time.monotonic()
        self._due_s = -math.inf

    @property
    def waited_s(self) -> float:
        """Time since the wait began."""
        return time.monotonic() - self._began_s

    @property
    def left_s(self) -> float:
        """Time until the wait is given up."""
        return float("inf") if self._wait.timeout_s is None else self._wait.timeout_s - self.waited_s

    def tell(self, holder: str) -> None:
        """Tell who is waited for, where that is due. Raises DeviceBusyError when the time is over."""
        if self.left_s <= 0:
            raise DeviceBusyError(holder)
        if self._wait.on_wait is not None and time.monotonic() >= self._due_s:
            again_s = self._wait.again_s
            self._due_s = math.inf if again_s is None else time.monotonic() + again_s
            self._wait.on_wait(holder)
