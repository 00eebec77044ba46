"""Structure that every draw of an input has (symmetric, sorted, unit rows, ...), which a variation has to keep."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from kbench.numerics import elements
from kbench.numerics.tails import SURE

CORNER = 64
"""Rows and columns that are tested first: values without structure fail here."""
LARGEST_SIDE = 1 << 11
"""Side of the largest square matrix that is factored to test whether it is positive definite, to limit time."""

Test = Callable[[Tensor], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Structure:
    """One kind of structure: a test of values, and a function that restores it in changed values."""

    name: str
    holds: Test
    keep: Callable[[Tensor, Tensor], Tensor] = lambda changed, _: changed
    """Restores the structure, from the changed values and the original ones."""


def _is_square(x: Tensor) -> bool:
    return x.dim() >= 2 and x.shape[-1] == x.shape[-2] > 1


def _first(x: Tensor) -> Tensor:
    """Return the first rows of the first matrix."""
    return x[(0,) * (x.dim() - 2)][:CORNER] if x.dim() > 1 else x


def _quickly(test: Test) -> Test:
    """Return a test that reads all elements only if the first rows pass."""
    return lambda x: test(_first(x)) and (_first(x).numel() == x.numel() or test(x))


def with_zeros_of(x: Tensor, changed: Tensor) -> Tensor:
    """Put the zeros of x into its changed values: zeros among other values are structure (a triangle, a mask)."""
    if x.any():
        for _, there, here in elements.chunks(changed, x):  # a mask of the whole would be a quarter of the input
            there.masked_fill_(here == 0, 0)
    return changed


def _reflected(name: str, image: Callable[[Tensor], Tensor], applies: Test = _is_square) -> Structure:
    """Return the structure of matrices that equal an image of their transpose."""

    def holds(x: Tensor) -> bool:
        corner = x[..., :CORNER, :CORNER] if applies(x) else None
        return corner is not None and torch.equal(corner, image(corner)) and torch.equal(x, image(x))

    return Structure(name=name, holds=holds)


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
    if not _is_square(x) or x.shape[-1] > LARGEST_SIDE or not torch.equal(x, x.mH):
        return False
    return not torch.linalg.cholesky_ex(_wide(x)).info.any()


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


def _norms(x: Tensor) -> Tensor:
    found: Tensor = torch.linalg.vector_norm(_wide(x), dim=-1, keepdim=True)
    return found


def _of_norm(rows: Tensor) -> Structure:
    """Return the structure of rows that all have the norm of the first one, as normalised rows do."""
    norm = float(_norms(rows[(0,) * (rows.dim() - 1)]))

    def holds(x: Tensor) -> bool:
        allowed = 1e-5 + 4 * torch.finfo(x.dtype).eps / x.shape[-1] ** 0.5  # rounded elements leave it in a sum
        return norm > 0 and bool(((_norms(x) - norm).abs() <= allowed * norm).all())

    name = f"of rows with the norm {norm:g}"
    return Structure(name=name, holds=_rows(holds), keep=lambda y, _: _wide(y).mul(norm / _norms(y)).to(y.dtype))


def _of_rows(dimension: int, x: Tensor, *, varies: bool) -> list[Structure]:
    """Return the structures that the rows along a dimension may have; a norm shows in several rows or draws."""
    shows = varies or x.numel() > x.shape[dimension]
    known = [*ROWS, *([_of_norm(x.movedim(dimension, -1))] if shows else [])]
    return known if dimension == x.dim() - 1 else [_along(dimension, structure) for structure in known]


def _along(dimension: int, structure: Structure) -> Structure:
    def keep(changed: Tensor, x: Tensor) -> Tensor:
        kept = structure.keep(*(t.movedim(dimension, -1) for t in (changed, x)))
        return torch.empty_like(x).copy_(kept.movedim(-1, dimension))

    name = f"{structure.name} along dimension {dimension}"
    return Structure(name=name, holds=lambda x: structure.holds(x.movedim(dimension, -1)), keep=keep)


def _is_whole(x: Tensor) -> bool:
    return x.is_floating_point() and _quickly(lambda part: torch.equal(part, part.round()))(x)


ZEROS = Structure(name="zero in the same places", holds=_has_zeros, keep=lambda y, x: with_zeros_of(x, y))
SORTED = (
    Structure(name="sorted", holds=_rows_are_sorted(1), keep=lambda y, _: y.sort(-1).values),
    Structure(
        name="sorted downwards", holds=_rows_are_sorted(-1), keep=lambda y, _: y.sort(-1, descending=True).values
    ),
)
ROWS = (
    *SORTED,
    Structure(name="of rows with the sum 1", holds=_rows(_is_stochastic)),
    Structure(name="positive", holds=_rows(lambda x: bool((x > 0).all()) and _is_stochastic(x))),
)
"""Structures of rows, which are looked for along every dimension; real values of one norm are another one."""
STRUCTURES = (
    ZEROS,
    Structure(name="whole numbers", holds=_is_whole, keep=lambda y, _: y.round()),
    _reflected("symmetric", lambda a: a.mT),
    _reflected("Hermitian", lambda a: a.mH, lambda x: x.is_complex() and _is_square(x)),
    _reflected("skew-symmetric", lambda a: -a.mT),
    Structure(name="of modulus 1", holds=lambda x: x.is_complex() and _near(x.abs(), 1.0, x)),
    Structure(name="positive definite", holds=_is_definite),
)
"""Structures of values, in the order in which a changed input gets them back; those of rows follow."""


DISTINCT = Structure(
    name="of distinct values",
    holds=lambda x: x.numel() >= SURE and x.unique().numel() == x.numel(),
)
INTEGER_STRUCTURES = (*SORTED, DISTINCT)


def found_in(x: Tensor, others: Sequence[Tensor]) -> list[Structure]:
    """Return the structures that one draw of an input has, tied elements in `others` too; none of a single value."""
    if x.numel() < 2 or x.element_size() == 1:
        return []
    corner = _first(x)[..., :CORNER]
    if (corner == corner.reshape(-1)[0]).all() and (x == corner.reshape(-1)[0]).all():
        return []
    if not (x.is_floating_point() or x.is_complex()):
        return [structure for structure in INTEGER_STRUCTURES if structure.holds(x)]
    has_codes = corner.numel() >= CORNER and not x.is_complex()
    codes = corner.unique() if has_codes else corner.new_empty(0)
    few = [_codes(codes)] if 2 < codes.numel() <= 16 else []  # two values are labels
    few = [each for each in few if all(map(each.holds, others))]
    varies = any(not torch.equal(x, other) for other in others)
    rows = [each for dimension in reversed(range(x.dim())) for each in _of_rows(dimension, x, varies=varies)]
    known = (*few, *STRUCTURES, *rows)
    return [structure for structure in known if structure.holds(x)]


def _codes(values: Tensor) -> Structure:
    """Return the structure of an input whose elements are all among a few values, such as codes of a quantisation."""
    listed = ", ".join(f"{value:g}" for value in values[:3].tolist())
    name = f"of {values.numel()} values ({listed}, ...)"
    return Structure(name=name, holds=lambda x: bool(torch.isin(x, values).all()))


def common(first: Tensor, others: Sequence[Tensor]) -> tuple[Structure, ...]:
    """Return the structures that all draws have; zeros count only if they are at the same places."""
    found = found_in(first, others)
    kept = [structure for structure in found if all(structure.holds(other) for other in others)]
    if ZEROS in kept:
        zeros = first == 0
        apart = max((int((zeros != (other == 0)).count_nonzero()) for other in others), default=0)
        if apart > zeros.count_nonzero() / 256:  # some are zero by chance
            kept.remove(ZEROS)
    return tuple(kept)


def keep(structures: Sequence[Structure], changed: Tensor, x: Tensor) -> Tensor:
    """Return changed values with the structures of x; x itself if they cannot have these."""
    for structure in structures:
        changed = structure.keep(changed, x)
    return changed if all(structure.holds(changed) for structure in structures) else x
