"""Structure that every draw of an input has (symmetric, sorted, unit rows, ...), which a variation has to keep."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from kbench.numerics import elements
from kbench.numerics.tails import SURE

CORNER = 64
"""Rows and columns that are tested first: values without structure fail here."""
LARGEST_FACTORED = 1 << 11
"""Largest matrix that is factored to test whether it is positive definite or orthonormal, to limit time."""

Test = Callable[[Tensor], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Structure:
    """One kind of structure: a test of values, and a function that restores it in changed values."""

    name: str
    holds: Test
    keep: Callable[[Tensor, Tensor], Tensor] = lambda changed, _: changed
    """Restores the structure, from the changed values and the original ones."""


def _is_matrix(x: Tensor) -> bool:
    return x.dim() >= 2 and min(x.shape[-2:]) > 1


def _is_square(x: Tensor) -> bool:
    return _is_matrix(x) and x.shape[-1] == x.shape[-2]


def _first(x: Tensor) -> Tensor:
    """Return the first rows of the first matrix."""
    return x[(0,) * (x.dim() - 2)][:CORNER] if x.dim() > 1 else x


def _corner(x: Tensor) -> Tensor:
    """Return a few elements of the first matrix, in its own places."""
    return _first(x)[..., :CORNER]


def _quickly(test: Test) -> Test:
    """Return a test that reads all elements only if the first rows pass."""
    return lambda x: test(_first(x)) and (_first(x).numel() == x.numel() or test(x))


def with_zeros_of(x: Tensor, changed: Tensor) -> Tensor:
    """Put the zeros of x into its changed values: zeros among other values are structure (a triangle, a mask)."""
    if x.any():
        for _, there, here in elements.chunks(changed, x):  # a mask of the whole would be a quarter of the input
            there.masked_fill_(here == 0, 0)
    return changed


def _equals_transposed(x: Tensor, transposed: Callable[[Tensor], Tensor]) -> bool:
    def same(part: Tensor) -> bool:
        return torch.equal(part, transposed(part))

    return _is_square(x) and same(x[..., :CORNER, :CORNER]) and same(x)


def _mirrored(transposed: Callable[[Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda changed, _: changed.triu() + transposed(changed.triu(1))


def _has_zeros(x: Tensor) -> bool:
    """Return whether any corner of the first matrix has zeros among other values."""
    if not x.dim():
        return False
    first = x[(0,) * (x.dim() - 2)] if x.dim() > 1 else x[None]
    parts = (first[rows, columns] for rows in _ENDS for columns in _ENDS)
    return any(bool((part == 0).any()) for part in parts) and bool(x.any())


_ENDS = (slice(CORNER), slice(-CORNER, None))


def _rows_are_sorted(sign: int) -> Test:
    def ascend(x: Tensor) -> bool:
        rows = x if x.dtype.is_floating_point else x.to(torch.int64)
        return bool(((rows[..., 1:] - rows[..., :-1]) * sign >= 0).all())

    def holds(x: Tensor) -> bool:
        if not x.dim() or x.shape[-1] < 2 or x.is_complex():
            return False
        return x.numel() // x.shape[-1] * (x.shape[-1] - 1) >= SURE and _quickly(ascend)(x)

    return holds


def _is_definite(x: Tensor) -> bool:
    if not _is_square(x) or x.shape[-1] > LARGEST_FACTORED or not torch.equal(x, x.mH):
        return False
    return not torch.linalg.cholesky_ex(_wide(x)).info.any()


def _is_orthonormal(x: Tensor) -> bool:
    if not _is_matrix(x) or not x.shape[-1] <= min(x.shape[-2], LARGEST_FACTORED):
        return False
    wide = _wide(x)
    return _near(wide.mH @ wide, torch.eye(x.shape[-1], dtype=wide.dtype, device=x.device), x)


def _wide(x: Tensor) -> Tensor:
    return x if x.dtype in {torch.float32, torch.float64} or x.is_complex() else x.float()


def _near(found: Tensor, want: Tensor | float, x: Tensor) -> bool:
    """Return whether norms, sums or products are what they should be, but for the precision of their terms."""
    return bool(((found - want).abs() <= 1e-3 + torch.finfo(x.dtype).eps).all())


def _rows(test: Test) -> Test:
    """Return a test of the last dimension of real values."""
    return lambda x: x.dim() > 0 and x.shape[-1] > 1 and not x.is_complex() and _quickly(test)(x)


def _is_stochastic(x: Tensor) -> bool:
    return bool((x >= 0).all()) and _near(_wide(x).sum(-1), 1.0, x)


def _is_log_stochastic(x: Tensor) -> bool:
    return bool((x <= 0).all()) and _near(_wide(x).logsumexp(-1), 0.0, x)


def _unit(x: Tensor, _: Tensor) -> Tensor:
    return _wide(x).div(torch.linalg.vector_norm(_wide(x), dim=-1, keepdim=True)).to(x.dtype)


def _stochastic(x: Tensor, _: Tensor) -> Tensor:
    wide = _wide(x).abs()
    return (wide / wide.sum(-1, keepdim=True)).to(x.dtype)


def _positive(changed: Tensor, x: Tensor) -> Tensor:
    return torch.where(changed > 0, changed, x.min())


def _has_equal_halves(x: Tensor) -> bool:
    half = x.shape[-1] // 2 if x.dim() else 0

    def equal(part: Tensor) -> bool:
        return torch.equal(part[..., :half], part[..., half:])

    return half > 1 and 2 * half == x.shape[-1] and _quickly(equal)(x)


def _halved(changed: Tensor, _: Tensor) -> Tensor:
    half = changed[..., : changed.shape[-1] // 2]
    return torch.cat((half, half), -1)


def _is_whole(x: Tensor) -> bool:
    return x.is_floating_point() and _quickly(lambda part: torch.equal(part, part.round()))(x)


ZEROS = Structure(name="zero in the same places", holds=_has_zeros, keep=lambda y, x: with_zeros_of(x, y))
STRUCTURES = (
    ZEROS,
    Structure(name="whole numbers", holds=_is_whole, keep=lambda y, _: y.round()),
    Structure(name="sorted", holds=_rows_are_sorted(1), keep=lambda y, _: y.sort(-1).values),
    Structure(
        name="sorted downwards", holds=_rows_are_sorted(-1), keep=lambda y, _: y.sort(-1, descending=True).values
    ),
    Structure(
        name="symmetric",
        holds=lambda x: _equals_transposed(x, lambda a: a.mT),
        keep=_mirrored(lambda a: a.mT),
    ),
    Structure(
        name="Hermitian",
        holds=lambda x: x.is_complex() and _equals_transposed(x, lambda a: a.mH),
        keep=lambda y, _: (y + y.mH) / 2,
    ),
    Structure(
        name="skew-symmetric",
        holds=lambda x: _equals_transposed(x, lambda a: -a.mT),
        keep=lambda y, _: y.triu(1) - y.triu(1).mT,
    ),
    Structure(name="of two equal halves", holds=_has_equal_halves, keep=_halved),
    Structure(name="of unit rows", holds=_rows(lambda x: _near(_wide(x).norm(dim=-1), 1.0, x)), keep=_unit),
    Structure(name="of rows with the sum 1", holds=_rows(_is_stochastic), keep=_stochastic),
    Structure(name="positive", holds=_rows(lambda x: bool((x > 0).all()) and _is_stochastic(x)), keep=_positive),
    Structure(
        name="of logarithms of rows with the sum 1",
        holds=_rows(_is_log_stochastic),
        keep=lambda y, _: _wide(y).log_softmax(-1).to(y.dtype),
    ),
    Structure(name="orthonormal", holds=_is_orthonormal, keep=lambda y, _: torch.linalg.qr(_wide(y)).Q.to(y.dtype)),
    Structure(name="positive definite", holds=_is_definite),
)
"""Structures of values, in the order in which a changed input gets them back."""


DISTINCT = Structure(
    name="of distinct values",
    holds=lambda x: x.numel() >= SURE and x.unique().numel() == x.numel(),
)
INTEGER_STRUCTURES = (*(one for one in STRUCTURES if one.name.startswith("sorted")), DISTINCT)


def found_in(x: Tensor) -> list[Structure]:
    """Return the structures that one draw of an input has; a tensor of one value has none."""
    if x.numel() < 2 or x.element_size() == 1:
        return []
    corner = _corner(x)
    if (corner == corner.reshape(-1)[0]).all() and (x == corner.reshape(-1)[0]).all():
        return []
    if not (x.is_floating_point() or x.is_complex()):
        return [structure for structure in INTEGER_STRUCTURES if structure.holds(x)]
    has_codes = corner.numel() >= CORNER and not x.is_complex()
    codes = corner.unique() if has_codes else corner.new_empty(0)
    few = [_codes(codes)] if 2 < codes.numel() <= 16 else []  # two values are labels
    return [structure for structure in (*few, *STRUCTURES) if structure.holds(x)]


def _codes(values: Tensor) -> Structure:
    """Return the structure of an input whose elements are all among a few values, such as codes of a quantisation."""
    listed = ", ".join(f"{value:g}" for value in values[:3].tolist())
    name = f"of {values.numel()} values ({listed}, ...)"
    return Structure(name=name, holds=lambda x: bool(torch.isin(x, values).all()))


def common(first: Tensor, others: Sequence[Tensor]) -> tuple[Structure, ...]:
    """Return the structures that all draws have; zeros count only if they are at the same places."""
    found = found_in(first)
    kept = [structure for structure in found if all(structure.holds(other) for other in others)]
    if ZEROS in kept and any(not torch.equal(first == 0, other == 0) for other in others):
        kept.remove(ZEROS)
    return tuple(kept)


def keep(structures: Sequence[Structure], changed: Tensor, x: Tensor) -> Tensor:
    """Return changed values with the structures of x; x itself if they cannot have these."""
    for structure in structures:
        changed = structure.keep(changed, x)
    return changed if all(structure.holds(changed) for structure in structures) else x
