"""Filling of the memory that a solution has to write: a NaN that no computation makes, which shows gaps."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

POISON = 0x7FC0DEAD
"""Bits of the quiet NaN that output buffers are filled with before every call (repeated per 4 bytes)."""
HOST_SLACK_BYTES, HOST_BLOCKS = 128, 16
"""Sizes with which glibc 2.36 gives poisoned memory to an empty C++ function, tried with outputs of 2 KB to 13 MB."""


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
        return (bits == low) | (bits == high)
    return bits == (POISON if size == 4 else POISON << 32 | POISON)


def poison_pool(outputs: "Sequence[Tensor]") -> None:
    """Poison free memory of the outputs' sizes, so that unwritten elements are recognised."""
    held = [tensor for output in outputs if output.is_floating_point() for tensor in _free_memory(output)]
    for tensor in held:
        poison_floats(tensor)


def _free_memory(output: "Tensor") -> "list[Tensor]":
    """Allocate the memory that a call is likely to get for an output; on the host several blocks for small ones."""
    import torch

    if output.device.type == "cpu":
        blocks = HOST_BLOCKS if output.nbytes < HOST_BLOCKS << 12 else 1
        size = output.numel() + HOST_SLACK_BYTES // output.element_size()
        return [torch.empty(size, dtype=output.dtype) for _ in range(blocks)]
    return [torch.empty_strided(output.shape, output.stride(), dtype=output.dtype, device=output.device)]
