"""Tensors against the reference (the contract) and against fp64 (the oracle), in chunks; see docs/verification.md."""

import functools
import hashlib
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from kbench.core.model import Mismatch
from kbench.devices.backend import backend_of
from kbench.devices.poison import is_poison
from kbench.numerics import one_pass

CHUNK_ELEMENTS = 1 << 24
CPU_CHUNK_ELEMENTS = 1 << 19
"""A chunk and its temporaries then stay in the processor's cache."""
WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Integers by their size in bytes: the bits of an element, for operations that torch lacks for its own type."""
SHOWN_MISMATCHES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """Largest allowed difference of two values: |c - r| <= atol + rtol |r|; `exact` compares bits instead."""

    rtol: float
    atol: float
    exact: bool = False

    @property
    def coarse(self) -> bool:
        """True for 16-bit values, whose results differ by their rounding rather than by the order of sums."""
        return not self.exact and self.rtol >= TOLERANCES["float16"].rtol

    def near_zero(self, scale: float) -> float:
        """Return how far from fp64 an element near zero may be, in an output of this root mean square."""
        return NOISE * self.rtol * scale if self.coarse else self.atol * min(1.0, scale)


NOISE = 0.5
"""Error of an element near zero after several roundings, as a share of the tolerance at the root mean square."""

TOLERANCES = {
    **dict.fromkeys(("float64", "complex128"), Tolerance(rtol=1e-10, atol=1e-10)),
    **dict.fromkeys(("float32", "complex64"), Tolerance(rtol=1e-5, atol=1e-5)),
    "float16": Tolerance(rtol=1e-3, atol=1e-5),
    "bfloat16": Tolerance(rtol=8e-3, atol=1e-5),
}
"""By dtype name; every other dtype (integers, bool, fp8) is compared exactly."""
EXACT = Tolerance(rtol=0, atol=0, exact=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Differences of one output from the expected values; ratios are in units of the tolerance."""

    max_abs: float = 0.0
    max_rel: float = 0.0
    ratio: float = 0.0
    elements: int = 0
    wrong: int = 0
    poisoned: int = 0
    mismatches: tuple[Mismatch, ...] = ()

    @property
    def largest_error(self) -> float:
        """`max_abs`, which is of finite errors only, or infinity if a value that is shown as wrong is not finite."""
        finite = all(math.isfinite(place.got) and math.isfinite(place.want) for place in self.mismatches)
        return self.max_abs if finite else math.inf


def tolerance_for(dtype: torch.dtype, override: float | None = None) -> Tolerance:
    """Return the tolerance of a torch dtype; a problem's own `TOLERANCE` replaces fp32's rtol and atol."""
    table = TOLERANCES.get(str(dtype).removeprefix("torch."), EXACT)
    if override is None or table.exact:
        return table
    return Tolerance(rtol=override, atol=override)


def compare(got: Tensor, want: Tensor, tolerance: Tolerance, name: str = "output") -> Difference:
    """Compare two tensors of one shape and dtype; NaN equals NaN, other non-finite values only themselves."""
    if tolerance.exact and same_bits(got, want):
        return Difference(elements=want.numel())
    if want.dtype == torch.float32 and not tolerance.exact and (clean := _clean(got, want, tolerance)) is not None:
        return clean
    tops, poisoned, places = [[0.0] * 4], 0, list[Mismatch]()
    for start, c, r in chunks(got, want):
        bad, error, relative, ratio = _exactly(c, r) if tolerance.exact else _nearly(c, r, tolerance)
        # One transfer per chunk: the four numbers that every chunk contributes.
        worst = torch.stack([_finite_max(error), _finite_max(relative), ratio.max().double(), bad.sum().double()])
        tops.append(worst.tolist())
        if tops[-1][3]:
            poisoned += int(is_poison(c).sum().item()) if c.element_size() == 4 and c.is_contiguous() else 0
        if tops[-1][3] and len(places) < SHOWN_MISMATCHES:
            places += mismatches(start, c, r, bad, name, want.shape, most=SHOWN_MISMATCHES - len(places))
    max_abs, max_rel, top, _ = (max(column) for column in zip(*tops, strict=True))
    return Difference(
        max_abs=max_abs,
        max_rel=max_rel,
        ratio=top,
        elements=want.numel(),
        wrong=int(sum(wrong for *_, wrong in tops)),
        poisoned=poisoned,
        mismatches=tuple(places),
    )


def _exactly(c: Tensor, r: Tensor) -> tuple[Tensor, ...]:
    """Return which elements differ, by how much, that in units of the right ones, and in units of the tolerance."""
    bad = c.float().ne(r.float()) & ~(c.isnan() & r.isnan()) if c.dtype.itemsize == 1 else c != r  # -0 equals 0
    return bad, bad.double(), bad.double(), torch.where(bad, torch.inf, 0.0)


def _nearly(c: Tensor, r: Tensor, tolerance: Tolerance) -> tuple[Tensor, ...]:
    a, b = _working(c), _working(r)
    ratio = errors(a, b, tolerance, tolerance.atol)
    error = torch.where(ratio == 0, 0.0, (a - b).abs())
    return ratio > 1, error, error / b.abs().clamp_min(tolerance.atol), ratio


def worst_of_entries(got: Tensor, want: Tensor, tolerance: Tolerance) -> Tensor:
    """Return the largest error of each entry along the first dimension, in units of the tolerance."""
    worst = torch.zeros(len(want), dtype=torch.float64, device=want.device)
    row = want.numel() // max(1, len(want))
    for start, c, r in chunks(got, want):
        ratio = _exactly(c, r)[3] if tolerance.exact else _nearly(c, r, tolerance)[3]
        rows = max(1, c.numel() // row)
        part = worst[start // row :][:rows]
        torch.maximum(part, ratio.reshape(rows, -1).amax(1).double(), out=part)
    return worst


def missing_places(got: Tensor, want: Tensor, tolerance: Tolerance) -> Tensor:
    """Return the flat indices of the elements that are further than the tolerance from what was expected."""
    found = [torch.zeros(0, dtype=torch.int64, device=want.device)]
    for start, c, r in chunks(got, want):
        found.append(start + _nearly(c, r, tolerance)[0].flatten().nonzero().flatten())
    return torch.cat(found)


def worst_miss(got: Tensor, want: Tensor, oracle: Tensor, tolerance: Tolerance, atol: float) -> float:
    """Return the largest of `errors` of the elements that are further than the tolerance from `want`; 0 of none."""
    places = missing_places(got, want, tolerance)
    found = errors(got.flatten()[places], oracle.flatten()[places], tolerance, atol)
    return found.max().item() if found.numel() else 0.0


def mismatches(
    start: int, c: Tensor, r: Tensor, bad: Tensor, name: str, shape: Sequence[int], *, most: int
) -> Iterator[Mismatch]:
    """Yield the first bad elements of a chunk that begins at `start`; a complex one gives its worse part."""
    places = bad.flatten().nonzero().flatten()[:most]
    values, part = [t.flatten()[places] for t in (c, r)], torch.zeros_like(places)
    if c.is_complex():
        apart = values[0] - values[1]
        part = (apart.imag.abs() > apart.real.abs()).to(places.dtype)
        values = [torch.where(part == 1, t.imag, t.real) for t in values]
    parts = (f"{name}.real", f"{name}.imag") if c.is_complex() else (name,)
    for flat, which, got, want in zip(
        *torch.stack([t.double() for t in (places, part, *values)]).tolist(), strict=True
    ):
        yield Mismatch(output=parts[int(which)], index=unravel(start + int(flat), shape), got=got, want=want)


def _clean(got: Tensor, want: Tensor, tolerance: Tolerance) -> Difference | None:
    """Compare in plain fp32 arithmetic, with one read from the device; return None unless all elements pass."""
    if one_pass.fits(got, want):
        tops = [one_pass.largest_errors(got, want, tolerance.rtol, tolerance.atol)]
    else:
        tops = [torch.stack([values.max() for values in _errors(c, r, tolerance)]) for _, c, r in chunks(got, want)]
    max_abs, max_rel, ratio = torch.stack(tops).amax(0).tolist() if tops else (0.0, 0.0, math.nan)
    return Difference(max_abs=max_abs, max_rel=max_rel, ratio=ratio, elements=want.numel()) if ratio <= 1 else None


def _errors(c: Tensor, r: Tensor, tolerance: Tolerance) -> tuple[Tensor, Tensor, Tensor]:
    """Return |c - r|, that in units of max(|r|, atol), and in units of the tolerance."""
    error, scale = (c - r).abs_(), r.abs()
    relative = error / scale.clamp_min(tolerance.atol)
    return error, relative, error / scale.mul_(tolerance.rtol).add_(tolerance.atol)


def worst_errors(
    found: Sequence[Tensor], oracle: Tensor, tolerance: Tolerance, atols: Sequence[float], *, quick: bool = False
) -> Tensor:
    """Return the largest of `errors` of each of `found`, a reference the last, for each of `atols`, in this shape.

    `quick` takes half of the time or less, and gives an infinity or NaN unless all elements are finite.
    """
    if quick and all(one_pass.fits(each, oracle) for each in found):
        each_at = [[one_pass.largest_errors(c, oracle, tolerance.rtol, a)[0] for c in found] for a in atols]
        return torch.stack([torch.stack(at) for at in each_at])
    tops = [torch.zeros(len(atols), len(found), dtype=torch.float64, device=oracle.device)]
    for pieces in zip(*(chunks(each, oracle) for each in found), strict=True):
        given, exact = [c for _, c, _ in pieces], pieces[0][2]
        error = _quick_errors if quick else functools.partial(errors, lost=given[-1])
        tops.append(torch.stack([torch.stack([error(c, exact, tolerance, a).max() for c in given]) for a in atols]))
    return torch.stack(tops).amax(0)


def _quick_errors(got: Tensor, oracle: Tensor, tolerance: Tolerance, atol: float) -> Tensor:
    allowed = (oracle.abs() * tolerance.rtol + atol).clamp_min_(torch.finfo(torch.float64).tiny)
    return (got.to(oracle.dtype) - oracle).abs() / allowed


def errors(got: Tensor, oracle: Tensor, tolerance: Tolerance, atol: float, lost: Tensor | None = None) -> Tensor:
    """Return |c - o| in units of atol + rtol |o|, element by element; infinite where finiteness differs.

    Where `lost`, a reference, overflowed and the oracle has not, what equals it is right as well.
    """
    a, b = got.to(oracle.dtype), oracle
    same = (a == b) | (a.isnan() & b.isnan())
    if lost is not None:
        given = lost.to(b.dtype)
        same |= ~given.isfinite() & b.isfinite() & ((a == given) | (a.isnan() & given.isnan()))
    ratio = (a - b).abs() / (atol + tolerance.rtol * b.abs()).clamp_min(torch.finfo(torch.float64).tiny)
    return torch.where(same, 0.0, torch.where(ratio.isfinite(), ratio, torch.inf))


def overflow_and_rms(want: Tensor, oracle: Tensor) -> tuple[bool, float]:
    """Return whether a reference is not finite where the oracle is, and the oracle's `rms`."""
    finite, squares = torch.stack([_are_finite(want).double(), _sum_of_squares(oracle)]).tolist()
    overflows = not finite and not _all((r.isfinite() | ~o.isfinite()).all() for _, r, o in chunks(want, oracle))
    return overflows, _root_of_mean(squares, oracle)


def vacuous_and_rms(want: Tensor, trivial: list[Tensor], tolerance: Tolerance) -> tuple[bool, float]:
    """Return whether zeros, the mean or any of `trivial` would pass, and the `rms`; if exact, False and 1."""
    if tolerance.exact or want.numel() < 2:
        return False, 1.0 if tolerance.exact else rms(want)
    candidates = [value.expand(want.shape) for value in (want.new_zeros(()), mean(want))]
    candidates += [t for t in trivial if t.shape == want.shape and t.dtype == want.dtype]
    first = [_holds(*next(chunks(candidate, want))[1:], tolerance).double() for candidate in candidates]
    squares, *held = torch.stack([_sum_of_squares(want), *first]).tolist()
    tried = (
        holds and all(bool(_holds(c, r, tolerance)) for _, c, r in chunks(candidate, want))
        for candidate, holds in zip(candidates, held, strict=True)
    )
    return any(tried), _root_of_mean(squares, want)


def mean(tensor: Tensor) -> Tensor:
    """Return the mean of all elements, of the tensor's own dtype."""
    sums = [chunk.sum(dtype=_double(chunk)) for _, chunk, _ in chunks(tensor, tensor)]
    return (torch.stack(sums).sum() / tensor.numel()).to(tensor.dtype)


def _holds(c: Tensor, r: Tensor, tolerance: Tolerance) -> Tensor:
    return ((c - r).abs() <= tolerance.atol + tolerance.rtol * r.abs()).all()


def fingerprint(tensor: Tensor) -> int:
    """Return a number that stands for a dense tensor's bits in this process: a hash, or on a GPU a weighted sum."""
    reach = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True)) if tensor.numel() else 0
    raw = torch.as_strided(tensor.detach(), (reach,), (1,), tensor.storage_offset()).view(torch.uint8)
    if not backend_of(raw).has_own_memory:
        return int.from_bytes(hashlib.blake2b(raw.numpy().data, digest_size=8).digest())
    last = bytes(raw[raw.numel() // one_pass.BYTES * one_pass.BYTES :].tolist())
    return one_pass.sum_of_words(raw) << 8 * one_pass.BYTES | int.from_bytes(last, "little")


def same_bits(one: Tensor, other: Tensor) -> bool:
    """Return whether two tensors of one shape and dtype hold equal bits, NaN's included."""
    pairs = [t.resolve_conj().resolve_neg() for t in (one, other)]
    mine, theirs = [torch.view_as_real(t) if t.is_complex() else t for t in pairs]
    word = WORDS[mine.element_size()]
    pieces = ((a.view(word), b.view(word)) for _, a, b in chunks(mine, theirs))
    if not backend_of(one).has_own_memory:
        return all(torch.equal(a, b) for a, b in pieces)
    return _all((a == b).all() for a, b in pieces)


def _all(answers: Iterable[Tensor]) -> bool:
    """Return whether all answers are true; the device, which others may share, is asked once, at the end."""
    asked = list(answers)
    return not asked or bool(torch.stack(asked).all())


def all_finite(tensor: Tensor) -> bool:
    """Return whether no element is NaN or infinite."""
    return bool(_are_finite(tensor))


def _are_finite(tensor: Tensor) -> Tensor:
    wide = (chunk if chunk.element_size() > 1 else chunk.float() for _, chunk, _ in chunks(tensor, tensor))
    found = [chunk.isfinite().all() for chunk in wide]
    return torch.stack(found).all() if found else torch.ones((), dtype=torch.bool, device=tensor.device)


def _working(tensor: Tensor) -> Tensor:
    return tensor.to(_double(tensor))


def _double(tensor: Tensor) -> torch.dtype:
    return torch.complex128 if tensor.is_complex() else torch.float64


def chunks(got: Tensor, want: Tensor) -> Iterator[tuple[int, Tensor, Tensor]]:
    """Yield (first flat index, chunk of got, chunk of want); tensors are cut along their first dimension."""
    if want.numel() == 0:
        return
    limit = CHUNK_ELEMENTS if backend_of(want).has_own_memory else CPU_CHUNK_ELEMENTS
    if want.dim() == 0 or want.numel() <= limit:
        yield 0, got, want
        return
    row = want.numel() // want.shape[0]
    if row > limit and want.dim() > 1:
        for i in range(want.shape[0]):
            for start, c, r in chunks(got[i], want[i]):
                yield i * row + start, c, r
        return
    rows = max(1, limit // row)
    for start in range(0, want.shape[0], rows):
        yield start * row, got[start : start + rows], want[start : start + rows]


def rms(tensor: Tensor) -> float:
    """Return the root of the mean square of the finite elements; 1 where there are none."""
    return _root_of_mean(_sum_of_squares(tensor).item(), tensor)


def _sum_of_squares(tensor: Tensor) -> Tensor:
    norms = [torch.linalg.vector_norm(chunk, dtype=_double(chunk)).double() for _, chunk, _ in chunks(tensor, tensor)]
    nothing = torch.full((), math.nan, dtype=torch.float64, device=tensor.device)
    return torch.stack(norms).square().sum() if norms else nothing


def _root_of_mean(squares: float, tensor: Tensor) -> float:
    if math.isfinite(squares):
        return math.sqrt(squares / tensor.numel())
    finite = [chunk[chunk.isfinite()] for _, chunk, _ in chunks(tensor, tensor)]
    count = sum(part.numel() for part in finite)
    return math.sqrt(sum((_working(part).abs() ** 2).sum().item() for part in finite) / count) if count else 1.0


def rms_apart(one: Tensor, other: Tensor) -> float:
    """Return the root mean square of the difference in units of the tensors'; infinite where finiteness differs."""
    sums = [torch.zeros(2, dtype=torch.float64, device=one.device)]
    for _, c, r in chunks(one, other):
        a, b = _working(c), _working(r)
        same = (a == b) | (a.isnan() & b.isnan())
        parts = torch.where(same, 0.0, a - b), torch.where(b.isfinite(), b, 0.0)
        sums.append(torch.stack([part.abs().square().sum() for part in parts]))
    apart, whole = torch.stack(sums).sum(dim=0).tolist()
    if apart == 0:
        return 0.0
    return math.sqrt(apart / whole) if math.isfinite(apart) and whole > 0 else math.inf


def _finite_max(values: Tensor) -> Tensor:
    return torch.where(values.isfinite(), values, 0.0).max().double()


def unravel(flat: int, shape: Sequence[int]) -> tuple[int, ...]:
    """Return the index of the element number `flat` of a contiguous tensor; torch's own imports torch.compile."""
    return tuple(map(int, np.unravel_index(flat, shape)))
