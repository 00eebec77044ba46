"""Codes of discontinuous outputs: integers, bool, and the 8-bit floating-point types, in the order of their values."""

import torch
from torch import Tensor

from kbench.numerics import elements

QUANTISED = (torch.int8, torch.uint8, torch.int16)
"""Integer types that usually hold rounded values; wider ones hold counts and indices."""


def ordinals(values: Tensor) -> Tensor:
    """Return whole numbers in the order of the values: neighbouring codes are one apart, and zeros of both signs equal.

    NaN comes after infinity, or after the largest value of a type without infinities.
    """
    if not is_float8(values.dtype):
        return values.long()
    has_one_nan = values.dtype in {torch.float8_e4m3fnuz, torch.float8_e5m2fnuz}  # in the place of a negative zero
    bits = values.view(torch.uint8).long()
    return torch.where(bits == 128, 128 * has_one_nan, torch.where(bits > 128, 128 - bits, bits))


def is_float8(dtype: torch.dtype) -> bool:
    """Return whether a type is a floating-point type of 8 bits."""
    return dtype.is_floating_point and dtype.itemsize == 1


def is_quantised(dtype: torch.dtype) -> bool:
    """Return whether values of a type are codes of rounded values, as far as the type shows."""
    return is_float8(dtype) or dtype in QUANTISED


def differing_places(got: Tensor, want: Tensor) -> Tensor:
    """Return the flat indices of the elements whose codes differ."""
    found = [torch.zeros(0, dtype=torch.int64, device=want.device)]
    for start, c, r in elements.chunks(got, want):
        found.append(start + (ordinals(c) != ordinals(r)).flatten().nonzero().flatten())
    return torch.cat(found)


def at(values: Tensor, places: Tensor) -> Tensor:
    """Return the ordinals of the elements with these flat indices."""
    raw = values.view(torch.uint8) if is_float8(values.dtype) else values
    chosen = raw.reshape(-1)[places]
    return ordinals(chosen.view(values.dtype) if is_float8(values.dtype) else chosen)


def replaced(values: Tensor, by: Tensor, places: Tensor) -> Tensor:
    """Return a copy with the elements of another tensor at these flat indices."""
    word = elements.WORDS[values.element_size()]
    made, given = values.view(word).flatten().clone(), by.view(word).flatten()
    made[places] = given[places]
    return made.view(values.dtype).view(values.shape)
