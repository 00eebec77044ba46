"""Faults that show in an output alone, beside what it should be: pure functions that name one, or return None."""

import torch
from torch import Tensor

from kbench.core.diagnosis import Diagnosis
from kbench.devices.poison import POISON
from kbench.judge.diagnosis import likeness, regions
from kbench.numerics import elements

GROSS = 0.02
"""Half of a region's errors must exceed this share of the right values (root mean squares)."""
MOST_BAD = 0.75
"""Chosen. Where more of an output is wrong, the rest may be right by chance: the last row without a causal mask."""
LEEWAY = 16.0
"""The rest of the output may be wrong by this many tolerances, as an honest product's worst element may be."""


def unwritten(got: Tensor) -> Diagnosis | None:
    """Name the region of an output that still holds the poison that kbench filled it with."""
    bad = poisoned(got)
    count, total = int(bad.sum().item()), bad.numel()
    if not count:
        return None
    region = regions.region_of(bad)
    if count < total and region is None:
        return None
    where = "nothing of the output" if count == total else region.words if region is not None else ""
    sentence = f"writes {where}" if count == total else f"never writes {where}"
    return Diagnosis(
        code="unwritten", sentence=sentence, evidence=f"{count:,} of {total:,} elements hold kbench's filling"
    )


def transposed(got: Tensor, want: Tensor, tolerance: elements.Tolerance) -> Diagnosis | None:
    """Return which two dimensions of an output are exchanged, in its memory or its indices."""
    if got.numel() < likeness.FEW or bool((got.flatten() == got.flatten()[0]).all()):
        return None
    for first in range(got.dim()):
        for second in range(first + 1, got.dim()):
            if got.shape[first] == 1 or got.shape[second] == 1:
                continue
            turned = want.transpose(first, second)
            read = want.reshape(turned.shape).transpose(first, second)
            for other in (turned.reshape(want.shape), read):
                if likeness.is_same(got, want, other, tolerance):
                    return Diagnosis(
                        code="transposed",
                        sentence=f"writes the output with dimensions {first} and {second} exchanged",
                        evidence="equal to the reference's output turned so, within the tolerance",
                    )
    return None


def partial_block(got: Tensor, want: Tensor, tolerance: elements.Tolerance) -> Diagnosis | None:
    """Name the region outside of which an output is right, where it is wrong by much inside."""
    if tolerance.exact:
        bad = got != want
    else:
        bad = elements.errors(got, want, tolerance, tolerance.atol * min(1.0, elements.rms(want))) > LEEWAY
    region = regions.region_of(bad)
    if region is None:
        return None
    if not tolerance.exact:
        error, right = (got[bad] - want[bad]).abs().double(), elements.rms(want[bad])
        if bool(error.isfinite().all()) and error.median().item() < GROSS * right:
            return None
    held = got[bad]
    same = held.numel() > 1 and bool((held == held.flatten()[0]).all())
    if not same and held.numel() > MOST_BAD * bad.numel():
        return None
    what = f"; there it is {held.flatten()[0].item():g} everywhere" if same else ""
    return Diagnosis(
        code="partial_block",
        sentence=f"wrong in {region.words}, right elsewhere{what}",
        evidence=f"{int(bad.sum().item()):,} of {bad.numel():,} elements are wrong, {region.filled:.0%} of that region",
    )


def poisoned(tensor: Tensor) -> Tensor:
    """Return which elements still hold the poison pattern, as a boolean tensor; none of one-byte elements do."""
    size = tensor.element_size()
    if size not in {2, 4, 8}:
        return torch.zeros(tensor.shape, dtype=torch.bool, device=tensor.device)
    word = {2: torch.int16, 4: torch.int32, 8: torch.int64}[size]
    bits = tensor.contiguous().view(word)
    if size == 2:  # the two halves of a word alternate from one element to the next
        low, high = ((half ^ 0x8000) - 0x8000 for half in (POISON & 0xFFFF, POISON >> 16))
        return (bits == low) | (bits == high)
    return bits == (POISON if size == 4 else POISON << 32 | POISON)
