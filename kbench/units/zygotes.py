"""The zygote of a lane: started when it is wanted, and anew where it ended or has served long enough."""

from dataclasses import dataclass
from pathlib import Path

from kbench.isolation import zygote
from kbench.isolation.process import Child

MOST_JUDGES = 1000
"""Chosen. A zygote keeps nothing of a judge, so this guards against leaks that nobody knows of."""
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
    """Has one zygote ready for whoever starts judges from one thread; `many` judges make it import more ahead."""

    def __init__(self, scratch: Path, *, many: bool = False):
        self._scratch = scratch
        self._many = many
        self._zygote: Child | None = None
        self._judges = 0
        self.started = 0
        """How many there were."""

    def start(self) -> None:
        """Start a zygote ahead, unless there is one."""
        if self._zygote is None or self._zygote.has_ended:
            self.close()
            self._zygote = zygote.start(self._scratch, many=self._many)
            self._judges = 0
            self.started += 1

    def ready(self) -> Child:
        """Return a zygote for one more judge."""
        if self._judges >= MOST_JUDGES:
            self.close()
        self.start()
        assert self._zygote is not None, "just started"
        self._judges += 1
        return self._zygote

    def close(self) -> None:
        """End the zygote and all below it."""
        if self._zygote is not None:
            self._zygote.kill()
        self._zygote = None
