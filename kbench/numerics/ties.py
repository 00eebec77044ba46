"""Indices that may differ: those of values that are as good as the ones that were chosen."""

from torch import Tensor


def picked(source: Tensor, picks: Tensor, dim: int | None) -> Tensor | None:
    """Return the values that indices along a dimension (None: of the flattened tensor) pick; None if they are none."""
    if dim is None:
        source, picks, dim = source.flatten(), picks.flatten(), 0
    dim %= max(1, source.dim())
    if picks.dim() == source.dim() - 1:
        picks = picks.unsqueeze(dim)
    lengths = zip(picks.shape, source.shape, strict=False)
    if picks.dim() != source.dim() or any(mine != whole for n, (mine, whole) in enumerate(lengths) if n != dim):
        return None
    if bool(((picks < 0) | (picks >= source.shape[dim])).any()):
        return None
    return source.gather(dim, picks.long())


def as_distinct(got: Tensor, want: Tensor, dim: int) -> bool:
    """Return whether no index comes twice in `got` along a dimension where none does in `want`."""
    mine, theirs = (_distinct(picks, dim) for picks in (got, want))
    return bool((mine | ~theirs).all())


def _distinct(picks: Tensor, dim: int) -> Tensor:
    """Return for every row along a dimension whether its indices are all different."""
    ordered = picks.movedim(dim, -1).sort().values
    return (ordered[..., 1:] != ordered[..., :-1]).all(-1)
