"""Size of a case, known before anything of it is allocated, and whether it is worth a line."""

from collections.abc import Sequence
from dataclasses import dataclass

LARGE_BYTES = {"cpu": 1 << 28, "cuda": 1 << 32}
"""Of a call. Chosen: on two busy processors, 1 GB took more than three minutes to verify; a GPU takes seconds."""


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
        """Whether one should know before it starts."""
        return (self.call_bytes or 0) >= LARGE_BYTES[self.device]


def worth_telling(chosen: Sequence[Forecast], small: Forecast | None) -> tuple[tuple[Forecast, ...], Forecast | None]:
    """Return the large ones of the chosen cases, and the small one where it is a way out: not chosen, not large."""
    large = tuple(one for one in chosen if one.is_large)
    offered = large and small is not None and not small.is_large and small.case not in {one.case for one in chosen}
    return large, small if offered else None
