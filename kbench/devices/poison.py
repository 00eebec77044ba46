"""What memory holds that a solution is to write: a NaN that no computation makes, so that gaps are seen and named."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

POISON = 0x7FC0DEAD
"""Bits of the quiet NaN that output buffers are filled with before every call (repeated per 4 bytes)."""


def poison(block: "Tensor") -> None:
    """Fill a uint8 tensor with the pattern."""
    import torch

    words = block.numel() // 4 * 4
    block[:words].view(torch.int32).fill_(POISON)
    block[words:].fill_(0xFF)


def poison_floats(tensor: "Tensor") -> None:
    """Fill a floating-point tensor with NaN: with the pattern's, where one word or half a word is an element."""
    import torch

    patterns = {2: (torch.int16, POISON >> 16), 4: (torch.int32, POISON)}
    kind, bits = patterns.get(tensor.element_size(), (tensor.dtype, float("nan")))
    tensor.view(kind).fill_(bits)
