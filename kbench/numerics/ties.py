"""Indices that may differ: those of equal values, of which either may come first."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor


def pick_places(got: Tensor, want: Tensor, inputs: Sequence[Tensor]) -> Iterator[tuple[int, int | None]]:
    """Yield where two tensors of indices point at equal values: number of the input, and dimension; None: flattened.

    They may be what `argmax`, `topk` and `argsort` return. NaN equals nothing. Where no value is picked twice in
    `want`, none may be in `got`.
    """
    if want.dtype not in (torch.int64, torch.int32):
        return
    for number, source in enumerate(inputs):
        dims: list[int | None] = [*range(source.dim() if want.dim() else 0)] + [None] * (want.numel() == 1)
        for dim in dims if source.dtype != torch.bool else ():
            alike = [other for other in inputs if other.shape == source.shape]
            if not all(pick_equal(other, got, other, want, dim) for other in alike):
                continue  # not the source alone: a mask, say, is equal at many places where the scores are not
            once = [_distinct(picks, dim) for picks in (got, want) if dim is None or want.dim() == source.dim()]
            if not once or bool((once[0] | ~once[1]).all()):
                yield number, dim


def pick_equal(source: Tensor, picks: Tensor, other: Tensor, others: Tensor, dim: int | None) -> bool:
    """Return whether indices into two tensors pick equal values."""
    mine, theirs = picked(source, picks, dim), picked(other, others, dim)
    return mine is not None and theirs is not None and torch.equal(mine, theirs)


def picked(source: Tensor, picks: Tensor, dim: int | None) -> Tensor | None:
    """Return the values that indices along a dimension (None: of the flattened tensor) pick; None if they are none."""
    if dim is None:
        source, picks, dim = source.flatten(), picks.flatten(), 0
    if picks.dim() == source.dim() - 1:
        picks = picks.unsqueeze(dim)
    lengths = zip(picks.shape, source.shape, strict=False)
    if picks.dim() != source.dim() or any(mine != whole for n, (mine, whole) in enumerate(lengths) if n != dim):
        return None
    if bool(((picks < 0) | (picks >= source.shape[dim])).any()):
        return None
    return source.gather(dim, picks.long())


def _distinct(picks: Tensor, dim: int | None) -> Tensor:
    """Return for every row along a dimension whether its indices are all different."""
    ordered = (picks.flatten() if dim is None else picks.movedim(dim, -1)).sort().values
    return (ordered[..., 1:] != ordered[..., :-1]).all(-1)
