"""Indices that may differ: those of equal values, of which either may come first."""

from collections.abc import Iterator, Sequence
from typing import Any


def pick_places(got: Any, want: Any, inputs: Sequence[Any]) -> Iterator[tuple[int, int | None]]:
    """Yield where two tensors of indices point at equal values: number of the input, and dimension; None: flattened.

    They may be indices along one dimension of an input, or of all of it, as `argmax`, `topk` and `argsort` return them:
    which of two equal values comes first is open there. NaN equals nothing. Where no value is picked twice in `want`,
    none may be in `got`.
    """
    import torch

    if want.dtype not in (torch.int64, torch.int32):
        return
    for number, source in enumerate(inputs):
        dims: list[int | None] = [*range(source.dim() if want.dim() else 0)] + [None] * (want.numel() == 1)
        for dim in dims if source.dtype != torch.bool else ():
            mine, theirs = picked(source, got, dim), picked(source, want, dim)
            if mine is None or theirs is None or not torch.equal(mine, theirs):
                continue
            alike = [other for other in inputs if other.shape == source.shape and other is not source]
            if not all(torch.equal(picked(other, got, dim), picked(other, want, dim)) for other in alike):
                continue  # a mask, say, is equal at many places where the scores are not
            once = [_distinct(picks, dim) for picks in (got, want) if dim is None or want.dim() == source.dim()]
            if not once or bool((once[0] | ~once[1]).all()):
                yield number, dim


def picked(source: Any, picks: Any, dim: int | None) -> Any:
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


def _distinct(picks: Any, dim: int | None) -> Any:
    """Say of every row along a dimension whether no index in it comes twice."""
    ordered = (picks.flatten() if dim is None else picks.movedim(dim, -1)).sort().values
    return (ordered[..., 1:] != ordered[..., :-1]).all(-1)
