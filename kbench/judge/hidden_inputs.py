"""Inputs hidden in shared memory until a clock runs, if there is room for one copy of them only.

All bytes are xor-ed with a secret random pad, which repeats. A solution that knows a piece of the inputs, or their
distribution, could compute the pad in time.
"""

import secrets
from typing import Self

import torch
from torch import Tensor

from kbench.devices.backend import backend_of
from kbench.numerics import one_pass

PAD_BYTES = 8192
"""Length of the pad, which repeats: too long to guess, short enough to stay in a cache."""
PIECE_BYTES = 64 << 20


class InputMask:
    """A pad that never leaves the judge."""

    def __init__(self, device: torch.device):
        generator = torch.Generator(device).manual_seed(secrets.randbits(62))
        low, high = -(1 << 63), (1 << 63) - 1
        self._pad = torch.randint(low, high, (PAD_BYTES // 8,), generator=generator, device=device)

    @classmethod
    def blank(cls, device: torch.device) -> Self:
        """Return a mask of zeros: revealing takes as long, and changes nothing."""
        mask = cls(device)
        mask._pad.zero_()
        return mask

    def write_masked(self, plain: Tensor, masked: Tensor, offset: int) -> None:
        """Write bytes masked, piece by piece, `offset` bytes (a multiple of 8) behind the pad's beginning."""
        pad = torch.roll(self._pad, -(offset % PAD_BYTES // 8))
        for begin in range(_written_in_one_pass(plain, masked, pad), plain.numel(), PIECE_BYTES):
            piece = plain[begin : begin + PIECE_BYTES]
            staged = piece.new_empty(-(-piece.numel() // PAD_BYTES) * PAD_BYTES)
            staged[: piece.numel()].copy_(piece)
            self._rows(staged).bitwise_xor_(pad)
            masked[begin : begin + piece.numel()].copy_(staged[: piece.numel()])

    def reveal(self, masked: Tensor) -> None:
        """Unmask whole pads of bytes, in place."""
        self._rows(masked).bitwise_xor_(self._pad)

    @staticmethod
    def _rows(memory: Tensor) -> Tensor:
        return memory.view(torch.int64).view(memory.numel() // PAD_BYTES, PAD_BYTES // 8)


def _written_in_one_pass(plain: Tensor, masked: Tensor, pad: Tensor) -> int:
    """Write whole pads of bytes masked in one pass, if possible; return the number of these bytes."""
    nbytes = plain.numel() // PAD_BYTES * PAD_BYTES
    aligned = all(t.storage_offset() % 8 == 0 for t in (plain, masked))
    if not (aligned and backend_of(plain).has_own_memory):
        return 0
    words, made = (t[:nbytes].view(torch.int64) for t in (plain, masked))
    return nbytes if one_pass.xor_copy(words, pad, made) else 0
