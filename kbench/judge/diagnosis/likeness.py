"""How well an alternative explains a wrong output: pure functions of (got, want, alternative)."""

import functools
import math
import operator

import torch
from torch import Tensor

from kbench.numerics import elements

ROUNDING = 2.0
"""Tolerances, as a root mean square, that two computations of one function may be apart: a product of 576 terms is 3 at
its worst element (chosen)."""
GROSS_REST = 3e-3
"""Largest share of the error that may be left if the reference's own rounding exceeds the tolerance (chosen)."""
MOST_REST = 0.1
"""Largest share of the error that may ever be left if an alternative explains the output (chosen)."""
ALIKE, SIZES_APART = 0.5, 2.0
"""Least correlation of two errors, and largest ratio of their sizes, for one rounding to be behind both (chosen).
A chain of roundings that differs in one place keeps about half of its errors; those of another origin have none."""
FEW, SEVERAL = 8, 64
"""Elements. With fewer than FEW, only a close match counts; with fewer than SEVERAL, rounding proves nothing."""
FEW_REST = 1e-5
"""MOST_REST for outputs of fewer than FEW elements: dozens of alternatives are tried (chosen)."""
ORDERS = 16.0
"""Largest error (root mean square, in units of a format's precision) that storing in this format explains."""


def rest(got: Tensor, want: Tensor, alternative: Tensor) -> float:
    """Return rms(got - alternative) / rms(got - want); infinite for another shape or other places that are finite."""
    if alternative.shape != want.shape:
        return math.inf
    a, b, c = (_flat(t) for t in (got, want, alternative))
    here, there = a.isfinite(), c.isfinite()
    if bool((here != there).any()) or not bool(here.any()):
        return math.inf
    both = here & b.isfinite()
    error, left = _rms((a - b)[both]), _rms((a - c)[here])
    if error == 0.0:
        return 0.0 if left == 0.0 and not bool(both.all()) else math.inf
    return left / error


def is_same(got: Tensor, want: Tensor, alternative: Tensor, tolerance: elements.Tolerance) -> bool:
    """Return whether an output is the alternative but for rounding, which must be far from the error itself."""
    left = rest(got, want, alternative)
    if tolerance.exact:
        return left == 0.0
    if not left <= (MOST_REST if got.numel() >= FEW else FEW_REST):
        return False
    if got.numel() < FEW and torch.finfo(got.dtype).eps > FEW_REST * relative_error(got, want):
        return False  # rounding alone decides what is left of an error so small
    return left <= GROSS_REST or rounding_apart(got, alternative, tolerance) <= ROUNDING


def is_near(got: Tensor, want: Tensor, tolerance: elements.Tolerance) -> bool:
    """Return whether two outputs of one function are equal but for rounding; those that have none, bit for bit."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return False
    return elements.same_bits(got, want) if tolerance.exact else rounding_apart(got, want, tolerance) <= ROUNDING


def rounding_apart(got: Tensor, alternative: Tensor, tolerance: elements.Tolerance) -> float:
    """Return the root mean square of the distance of two outputs in units of the tolerance, finite elements only."""
    a, c = _finite(got, alternative)
    allowed = tolerance.atol * min(1.0, _rms(c)) + tolerance.rtol * c.abs()  # 0 where the alternative is zeros
    return _rms(torch.where(a == c, 0.0, (a - c).abs() / allowed))


def rounding_likeness(got: Tensor, want: Tensor, alternative: Tensor) -> float:
    """Return the correlation of the errors of an output and an alternative; 0 where it proves nothing."""
    if alternative.shape != want.shape or got.numel() < SEVERAL:
        return 0.0
    a, b, c = _finite(got, want, alternative)
    mine, theirs = a - b, c - b
    sizes = _rms(mine), _rms(theirs)
    if a.numel() < SEVERAL or not min(sizes) or max(sizes) > SIZES_APART * min(sizes):
        return 0.0
    found = float((mine * theirs).mean().item()) / (sizes[0] * sizes[1])
    return found if found >= ALIKE else 0.0


def is_stored_as(got: Tensor, want: Tensor, dtype: torch.dtype) -> bool:
    """Return whether an output's values are all of a 16-bit dtype, unlike the reference's, and err by its size."""
    if got.dtype not in {torch.float32, torch.float64} or got.numel() < SEVERAL or not bool(got.isfinite().all()):
        return False
    mine, theirs = (t.to(dtype).to(t.dtype) == t for t in (got, want))
    if not bool(mine.all()) or got.unique().numel() < SEVERAL // 4 or theirs.double().mean().item() > 0.5:
        return False
    return relative_error(got, want) <= ORDERS * torch.finfo(dtype).eps / 2


def relative_error(got: Tensor, want: Tensor) -> float:
    """Return rms(got - want) / rms(want) of the elements that are finite in both; infinite where none are."""
    a, b = _finite(got, want)
    size = _rms(b)
    return _rms(a - b) / size if size else math.inf


def is_one_value(tensor: Tensor) -> bool:
    """Return whether all elements, at least one, are equal."""
    return bool((tensor == tensor.flatten()[0]).all())


def median_of(tensor: Tensor) -> Tensor:
    """Return a tensor of the same shape that is the median of the finite elements everywhere."""
    return _finite(tensor)[0].median().expand(tensor.shape)


def _flat(tensor: Tensor) -> Tensor:
    wide = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
    return wide.detach().double().flatten()


def _finite(*tensors: Tensor) -> list[Tensor]:
    """Return the elements that are finite in all tensors, of each."""
    wide = [_flat(t) for t in tensors]
    finite = functools.reduce(operator.and_, [t.isfinite() for t in wide])
    return [t[finite] for t in wide]


def _rms(values: Tensor) -> float:
    return float(values.square().mean().sqrt().item()) if values.numel() else 0.0
