"""Size of a case, known before anything is allocated: the sizes worth a warning, and the room that calls need."""

from collections.abc import Sequence
from dataclasses import dataclass

LARGE_BYTES = {"cpu": 1 << 28, "cuda": 1 << 32}
"""Bytes of a call from which a case is large. Chosen: two busy processors verify 1 GB in over three minutes, a GPU in
seconds."""
CALL_FACTOR = 4
"""Chosen. Calls whose steps lie on the device together: one of each worker, and the judge's fp64 model takes two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """A case: the size of its tensors, and the time of a solution's last verdict on this device. None: not known."""

    case: str
    device: str
    """Kind of the device: `cpu` or `cuda`."""
    call_bytes: int | None = None
    """Inputs, outputs and parameters of one call, computed from shapes."""
    about_s: float | None = None
    """Duration of an earlier run on this device with these constants, which timed if this one does."""

    @property
    def is_large(self) -> bool:
        """True if a user should see the size before the case starts."""
        return (self.call_bytes or 0) >= LARGE_BYTES[self.device]


def large_forecasts(chosen: Sequence[Forecast], small: Forecast | None) -> tuple[tuple[Forecast, ...], Forecast | None]:
    """Return the large ones of the chosen cases, and the small one if it is an alternative: not chosen, not large."""
    large = tuple(one for one in chosen if one.is_large)
    offered = large and small is not None and not small.is_large and small.case not in {one.case for one in chosen}
    return large, small if offered else None


def steps_take_most(between_bytes: int, memory_bytes: int | None) -> bool:
    """Return whether the steps of calls take more than half of a device's memory: the judge must then release its own.

    Otherwise an H100 has 8 of 80 GB left for `eager` of KernelBench 3/31, which takes 17.
    """
    return memory_bytes is not None and CALL_FACTOR * between_bytes > memory_bytes / 2
