"""Errors that half, a quarter, an eighth (and so on) of the elements exceed, of a candidate and of the reference.

The largest error alone proves little where one element of the reference is badly off, as a 16-bit value near zero is.
"""

import math

import torch
from torch import Tensor

from kbench.numerics import elements

SAMPLE = 1 << 16
"""Elements that are sampled: enough to see a share of one in a thousand."""
SURE = 8
"""Fewest elements that show a pattern: fewer values may be far off, or sorted, by chance."""

Tails = tuple[tuple[float, float], ...]


def tails(
    got: Tensor, want: Tensor, oracle: Tensor, tolerance: elements.Tolerance, *, atol: float, lost: bool = False
) -> Tensor:
    """Return the errors that half, a quarter and so on of a candidate's elements exceed, each with the reference's.

    The units are those of `elements.errors`. The reference's error is the one that half as many of its elements exceed,
    to allow for chance. The shape is (shares, 2), on the device; shares of fewer than 2 SURE elements are left out.
    """
    mine, theirs, exact = sampled(got, want, oracle)
    given = theirs if lost else None
    ours, own = (elements.errors(t, exact, tolerance, atol, given).sort().values for t in (mine, theirs))
    count = exact.numel()
    shares = [count >> power for power in range(1, (count // SURE).bit_length() + 1)]
    here, there = ([count - share - 1 for share in each] for each in (shares[:-1], shares[1:]))
    return torch.stack([ours[here], own[there]], dim=1)


def quantile_error(want: Tensor, oracle: Tensor, tolerance: elements.Tolerance, share: float) -> float:
    """Return the error of a reference that this share of its elements exceeds."""
    theirs, exact = sampled(want, oracle)
    found = elements.errors(theirs, exact, tolerance, tolerance.near_zero(elements.rms(oracle)))
    return float(found.flatten().kthvalue(max(1, math.ceil((1 - share) * found.numel()))).values.item())


def merged(one: Tails, other: Tails) -> Tails:
    """Return the larger errors of two pieces of one output."""
    if not one or not other:
        return one or other
    return tuple((max(a, c), max(b, d)) for (a, b), (c, d) in zip(one, other, strict=False))


def sampled(*tensors: Tensor) -> list[Tensor]:
    """Return the same elements of each tensor, at random: all of them, in order, where there are few."""
    first = tensors[0]
    if first.numel() <= SAMPLE:
        return [t.flatten() for t in tensors]
    places = tuple(torch.randint(0, size, (SAMPLE,), device=first.device) for size in first.shape)
    return [t[places] for t in tensors]
