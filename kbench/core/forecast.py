"""What is known of a case before anything of it is allocated, and whether that is worth a line."""

from collections.abc import Sequence
from dataclasses import dataclass

LARGE_BYTES = {"cpu": 1 << 28, "cuda": 1 << 32}
"""Of a call. Chosen: on two busy processors, 1 GB took more than three minutes to verify; a GPU takes seconds."""
LONG_S = 30.0
"""Chosen: longer than people wait without wondering."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """A case: what its tensors take, and how long a solution took at its last verdict here. None: not known."""

    case: str
    device: str
    """Kind of the device: `cpu` or `cuda`."""
    call_bytes: int | None = None
    """Inputs, outputs and parameters of one call, computed from shapes."""
    took_s: float | None = None
    """Of an earlier run on this device with these constants, which timed if this one does."""

    @property
    def is_large(self) -> bool:
        """Whether one should know before it starts."""
        return (self.call_bytes or 0) >= LARGE_BYTES[self.device] or (self.took_s or 0.0) >= LONG_S


def worth_telling(chosen: Sequence[Forecast], small: Forecast | None) -> tuple[tuple[Forecast, ...], Forecast | None]:
    """Return the large ones of the chosen cases, and the small one where it is a way out: not chosen, not large."""
    large = tuple(one for one in chosen if one.is_large)
    offered = large and small is not None and not small.is_large and small.case not in {one.case for one in chosen}
    return large, small if offered else None
