"""One call of an operator in a run of the reference, and what may be done in its place."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

TILES = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
"""Chosen: widths of vectors, tiles and blocks; a tail is what is left beyond a multiple of one."""
Slip = tuple[str, str, Callable[[], Any]]
"""A usual mistake at one call: its code, a sentence, and how to compute what the operator returns then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorCall:
    """An operator with its arguments."""

    func: Any
    args: Sequence[Any]
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    before: "OperatorCall | None" = None
    """The one that made its first argument, as far as it is known."""

    @property
    def name(self) -> str:
        """Without the underscore of operators that work in place."""
        return str(self.func.overloadpacket.__name__).rstrip("_")

    @property
    def is_in_place(self) -> bool:
        """Whether it changes its first argument and returns that."""
        return str(self.func.overloadpacket.__name__).endswith("_")

    @property
    def shown(self) -> str:
        """The name that users know."""
        name = self.name.removeprefix("_").removeprefix("native_").removeprefix("linalg_vector_")
        return name.removesuffix("_with_indices").removesuffix("_forward")

    def having(self, changes: Mapping[int, Any]) -> Any:
        """Return what the operator returns with some arguments changed, by position; others keep their values."""
        args = [changes.get(place, arg) for place, arg in enumerate(self.args)]
        if self.is_in_place and 0 not in changes:
            args[0] = args[0].clone()
        return self.func(*args, **self.kwargs)

    def argument(self, place: int, default: Any = None) -> Any:
        """Return an argument by its position, or a default where it is not given."""
        return self.args[place] if place < len(self.args) else default

    def tensor(self, place: int) -> Tensor | None:
        """Return an argument if it is a tensor of floating point numbers."""
        found = self.argument(place)
        return found if isinstance(found, Tensor) and found.is_floating_point() else None


def shorter(length: int) -> list[int]:
    """Return how many terms of a sum count without its tail, without its last, or in its first tile; longest first."""
    whole = {length // tile * tile for tile in TILES}
    return sorted({n for n in (*whole, *TILES, length - 1) if 0 < n < length}, reverse=True)


def left_out(kept: int, length: int, of: str) -> str:
    """Say which terms are left out."""
    missing = length - kept
    return f"leaves out the last {f'{missing} ' if missing > 1 else ''}of {length} terms of {of}"
