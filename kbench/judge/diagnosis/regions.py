"""Where a mask of bad elements lies, in words: a tail, every n-th row, a triangle, a block; None if scattered."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

CHANCE = 1e-6
"""Probability that scattered elements would all fall into a region by chance (chosen)."""
LEAST_FILLED = 0.3
"""Share of a region that must be bad: where half of the right values are zeros, memory of zeros is right there."""
LEAST_GOOD = 16
"""Fewest right elements that can be a block (chosen)."""
STRIPES = 3
"""Fewest rows at equal distances that count as a pattern."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """A part of an output that is bad while all else is good."""

    words: str
    """E.g. `the last 24 of 1000 entries of dimension 1`."""
    filled: float
    """Share of its elements that are bad."""


Hull = tuple[str, int, int]
"""Elements in words (empty: they follow no pattern), how many of these are bad, and how many there are. Where all that
is good is a hull itself, the words are for all others, and the numbers for the good ones."""


def region_of(bad: Tensor) -> Region | None:
    """Return the region that holds all bad elements of a boolean tensor, or None where they are scattered."""
    count, total = int(bad.sum().item()), bad.numel()
    for words, inside, size in _hulls(bad, count) if count not in {0, total} else ():
        by_chance = inside * math.log(size / total) >= math.log(CHANCE)
        if words and inside >= LEAST_FILLED * size and not by_chance:
            return Region(words=words, filled=inside / size)
    return None


def _hulls(bad: Tensor, count: int) -> Iterator[Hull]:
    """Yield hulls of all wrong elements, the simpler first."""
    yield from _runs(bad, count)
    yield from _triangles(bad, count)
    places = _places(bad)
    yield _block_in_words(places, bad.shape), count, math.prod(map(len, places))
    yield from _rest_of_a_block(bad, bad.numel() - count)
    if bad.dim() > 2:
        rows = bad.flatten(0, -2)
        entries = rows.any(dim=1).nonzero().flatten()
        words = entries_in_words(entries, rows.shape[0]).replace("entries", "rows")
        yield words, count, len(entries) * rows.shape[1]


def _runs(bad: Tensor, count: int) -> Iterator[Hull]:
    """Yield what is from some element on, or up to one, counted through the whole tensor."""
    flat, total = bad.flatten(), bad.numel()
    good = total - count
    whole_rows = bad.dim() > 1 and count % bad.shape[-1] == 0
    if count >= good and bool(flat[good:].all()):
        yield f"all but the first {good:,} of {total:,} elements", good, good
    elif not whole_rows:
        for words, run in (("last", flat[good:]), ("first", flat[:count])):
            if bool(run.all()):
                yield f"the {words} {count:,} of {total:,} elements", min(count, good), min(count, good)


def _triangles(bad: Tensor, count: int) -> Iterator[Hull]:
    """Yield what is above the diagonal of the last two dimensions, or below."""
    whole = torch.ones(bad.shape[-2:], dtype=torch.bool, device=bad.device)
    for words, side in (("above", whole.triu(1)), ("below", whole.tril(-1))) if bad.dim() > 1 else ():
        if not bool((bad & ~side).any()):
            size = int(side.sum().item()) * (bad.numel() // side.numel())
            yield f"what is {words} the diagonal of the last two dimensions", count, size


def _rest_of_a_block(bad: Tensor, good: int) -> Iterator[Hull]:
    """Yield all but a block of the first entries: what a grid that is too small leaves."""
    places = _places(~bad)
    from_0 = all(int(entries[-1]) == len(entries) - 1 for entries in places)  # elsewhere a value is right by chance
    if from_0 and good >= LEAST_GOOD and math.prod(map(len, places)) == good:
        words = _block_in_words(places, bad.shape)
        yield words and f"all but {words}", good, good


def _places(mask: Tensor) -> list[Tensor]:
    """Return, for each dimension, the sorted entries in which the mask is true anywhere."""
    if mask.dim() == 1:  # `any` over no dimensions is one over all
        return [mask.nonzero().flatten()]
    return [mask.any([d for d in range(mask.dim()) if d != dim]).nonzero().flatten() for dim in range(mask.dim())]


def _block_in_words(places: list[Tensor], shape: torch.Size) -> str:
    """Name the entries of each dimension that is not whole; empty where they follow no pattern."""
    sizes = [(dim, entries, size) for dim, (entries, size) in enumerate(zip(places, shape, strict=True))]
    parts = [(dim, entries_in_words(entries, size)) for dim, entries, size in sizes if len(entries) < size]
    return " and ".join(f"{words} of dimension {dim}" for dim, words in parts) if all(w for _, w in parts) else ""


def entries_in_words(entries: Tensor, size: int) -> str:
    """Name sorted entries of one dimension: a run at either end or inside, or equally far apart; empty if neither."""
    first, last, count = int(entries[0]), int(entries[-1]), len(entries)
    if count == 1 and first not in {0, size - 1}:
        return f"entry {first} of {size}"
    if last - first == count - 1:
        if first and last < size - 1:
            return f"entries {first} to {last} of {size}"
        return f"the {'last' if first else 'first'}{f' {count}' if count > 1 else ''} of {size} entries"
    is_good = torch.ones(size, dtype=torch.bool, device=entries.device)
    is_good[entries] = False
    for words, some in (("every", entries), ("all but every", is_good.nonzero().flatten())):
        if step := _stripes(some, size):
            return f"{words} {ordinal(step)} of {size} entries"
    return ""


def _stripes(entries: Tensor, size: int) -> int:
    """Return how far apart sorted entries are that go through a whole dimension, equally far; 0 if they do not."""
    if len(entries) < STRIPES:
        return 0
    first = int(entries[0])
    step = int(entries[1]) - first
    whole = first < step and torch.equal(entries, torch.arange(first, size, step, device=entries.device))
    return step if whole else 0


def ordinal(number: int) -> str:
    """Return `2nd`, `3rd`, `4th`, `11th`, `21st`, ..."""
    ending = "th" if number % 100 in {11, 12, 13} else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
