"""The zygote that judges are forks of: started when it is wanted, and anew where it ended."""

import threading
from dataclasses import dataclass
from pathlib import Path

from kbench.isolation import zygote
from kbench.isolation.process import Child

MOST_GROWTH_BYTES = 4 << 30
"""Chosen. What a judge may hold of the host's memory beyond what it held after its first unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wear:
    """What a judge has been through."""

    units: int
    first_bytes: int
    """Of the host's memory, after its first unit."""
    now_bytes: int


def is_worn(wear: Wear, most_units: int) -> bool:
    """Say whether a judge is to be replaced before its next unit."""
    return wear.units >= most_units or wear.now_bytes - wear.first_bytes > MOST_GROWTH_BYTES


class Zygotes:
    """Has one zygote ready for whoever starts judges, from any thread; for `many` judges it imports more ahead."""

    def __init__(self, scratch: Path, *, many: bool = False):
        self._scratch = scratch
        self._many = many
        self._zygote: Child | None = None
        self._lock = threading.Lock()
        self.started = 0
        """How many there were."""

    def ready(self) -> Child:
        """Return the zygote: another one where it has ended."""
        with self._lock:
            if self._zygote is None or self._zygote.has_ended:
                if self._zygote is not None:
                    self._zygote.kill()
                self._zygote = zygote.start(self._scratch, many=self._many)
                self.started += 1
            return self._zygote

    def close(self) -> None:
        """End the zygote and all below it."""
        with self._lock:
            if self._zygote is not None:
                self._zygote.kill()
            self._zygote = None
