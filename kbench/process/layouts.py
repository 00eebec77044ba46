"""Equal inputs that lie otherwise in memory: which a solution is tried on, and which a build rehearses."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

MOST_BYTES = 1 << 28
"""Size of inputs up to which layouts are tried, and traffic up to which calls are short."""


def layouts_of(arguments: Sequence[Any]) -> Iterator[tuple[str, list[Any], int]]:
    """Yield (lack, arguments, misalignment in bytes) for the layouts that the tensors among the arguments admit.

    A `lack` is the property of a solution that is wrong on the layout: a key of `levels.PROPERTIES`.

    Arguments to be misaligned are yielded unchanged: the owner of the memory shifts them.
    """
    import torch

    tensors = [a for a in arguments if isinstance(a, torch.Tensor)]
    if not tensors or sum(t.numel() * t.element_size() for t in tensors) > MOST_BYTES:
        return
    yield "alignment", list(arguments), max(t.element_size() for t in tensors)
    if any(t.dim() >= 2 for t in tensors):
        yield "strides", [transposed(a) if isinstance(a, torch.Tensor) else a for a in arguments], 0
    if any(t.dim() == 4 for t in tensors):
        yield "channels_last", [channels_last(a) if isinstance(a, torch.Tensor) else a for a in arguments], 0


def transposed(x: "Tensor") -> "Tensor":
    """Return equal values whose last two dimensions are swapped in memory."""
    return x.transpose(-1, -2).contiguous().transpose(-1, -2) if x.dim() >= 2 else x


def channels_last(x: "Tensor") -> "Tensor":
    """Return equal values, of an image the channels innermost in memory."""
    import torch

    return x.to(memory_format=torch.channels_last) if x.dim() == 4 else x


def misaligned(x: "Tensor") -> "Tensor":
    """Return equal values, contiguous, that begin one element behind the beginning of an allocation."""
    import torch

    room = torch.empty(x.numel() + 1, dtype=x.dtype, device=x.device)
    return room[1:].view(x.shape).copy_(x)
