"""What a reference rounds to within, where its results are wider: half precision inside `autocast`, say."""

from collections.abc import Callable, Collection

import torch
from torch import Tensor

from kbench.judge.reference.expected import Expected
from kbench.numerics import elements, tails

COARSE = (torch.bfloat16, torch.float16)
"""Types of 16 bits, the coarser one first."""
ROUNDED = 5.0
"""Median error of fp32 results, in tolerances, from which on it is of 16 bits: measured, that of fp16 sums and products
is 9 or more, and that of fp32 products below 1 (`tests/judge/reference/test_inner_precision.py`)."""

Oracle = Callable[[Expected], list[tuple[list[int], list[Tensor]]] | None]


def inner_type(types: Collection[torch.dtype], results: Callable[[], Expected], oracle: Oracle) -> torch.dtype | None:
    """Return the 16-bit type among `types`, those of a call's intermediate results, that fp32 results are rounded to.

    None where there is none, or where the error of the results does not show it.
    """
    seen = next((each for each in COARSE if each in types), None)
    if seen is None:
        return None
    expected = results()
    wide = [t.dtype == torch.float32 and t.numel() > 0 for t in expected.judged.values()]
    for index, exact in (oracle(expected) if any(wide) else None) or ():
        for want, double, is_wide in zip(expected.judged.values(), exact, wide, strict=True):
            part = want[index] if index else want
            if is_wide and tails.median_error(part, double, elements.tolerance_for(want.dtype)) > ROUNDED:
                return seen
    return None


def tolerance_within(inner: torch.dtype | None, output: Tensor, own: elements.Tolerance) -> elements.Tolerance:
    """Return the tolerance of the type that an output was rounded to, which may be coarser than its `own`."""
    return elements.tolerance_for(inner) if inner is not None and output.dtype == torch.float32 else own
