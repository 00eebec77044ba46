"""Filling of the memory that a solution has to write: a NaN that no computation makes, which shows gaps."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

POISON = 0x7FC0DEAD
"""Bits of the quiet NaN that output buffers are filled with before every call (repeated per 4 bytes)."""
HOST_POISON = -1
"""Filling of the host's allocator, which repeats one byte: ones everywhere, a NaN of any floating-point type."""


def poison(block: "Tensor") -> None:
    """Fill a uint8 tensor with the pattern."""
    import torch

    words = block.numel() // 4 * 4
    block[:words].view(torch.int32).fill_(POISON)
    block[words:].fill_(0xFF)


def poison_floats(tensor: "Tensor") -> None:
    """Fill a floating-point tensor with NaN; the pattern's NaN if an element is a word or half a word."""
    import torch

    patterns = {2: (torch.int16, POISON >> 16), 4: (torch.int32, POISON)}
    kind, bits = patterns.get(tensor.element_size(), (tensor.dtype, float("nan")))
    tensor.view(kind).fill_(bits)


def is_poison(tensor: "Tensor") -> "Tensor":
    """Return a mask of the elements that hold poison; one-byte elements never do."""
    import torch

    size = tensor.element_size()
    if size not in {2, 4, 8}:
        return torch.zeros(tensor.shape, dtype=torch.bool, device=tensor.device)
    bits = tensor.contiguous().view({2: torch.int16, 4: torch.int32, 8: torch.int64}[size])
    if size == 2:  # the two halves of a word alternate from one element to the next
        low, high = ((half ^ 0x8000) - 0x8000 for half in (POISON & 0xFFFF, POISON >> 16))
        found = (bits == low) | (bits == high)
    else:
        found = bits == (POISON if size == 4 else POISON << 32 | POISON)
    if tensor.device.type == "cpu" and (tensor.is_floating_point() or tensor.is_complex()):
        found |= bits == HOST_POISON
    return found
