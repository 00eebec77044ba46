"""Where a mask of bad elements lies, in words: a tail, every n-th row, a triangle, a block; None if scattered."""

import math
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


def region_of(bad: Tensor) -> Region | None:
    """Return the region that holds all bad elements of a boolean tensor, or None where they are scattered."""
    count, total = int(bad.sum().item()), bad.numel()
    if count in {0, total}:
        return None
    found = _flat_run(bad, count) or _triangle(bad, count) or _box(bad, count)
    return found or _rest_of_a_box(bad, total - count) or _rows(bad, count)


def _flat_run(bad: Tensor, count: int) -> Region | None:
    """Find what is bad from some element on, or up to one, counted through the whole tensor."""
    flat, total = bad.flatten(), bad.numel()
    fewer = min(count, total - count)
    if not _is_no_chance(fewer, fewer / total):
        return None
    whole_rows = bad.dim() > 1 and count % bad.shape[-1] == 0
    if bool(flat[total - count :].all()):
        if count >= total / 2:
            return Region(words=f"all but the first {total - count:,} of {total:,} elements", filled=1.0)
        return None if whole_rows else Region(words=f"the last {count:,} of {total:,} elements", filled=1.0)
    if bool(flat[:count].all()) and not whole_rows:
        return Region(words=f"the first {count:,} of {total:,} elements", filled=1.0)
    return None


def _triangle(bad: Tensor, count: int) -> Region | None:
    """Find that all of it is above the diagonal of the last two dimensions, or below."""
    if bad.dim() < 2:
        return None
    whole = torch.ones(bad.shape[-2:], dtype=torch.bool, device=bad.device)
    for words, side in (("above", whole.triu(1)), ("below", whole.tril(-1))):
        size = int(side.sum().item()) * (bad.numel() // side.numel())
        if bool((bad & ~side).any()) or count < LEAST_FILLED * size or not _is_no_chance(count, size / bad.numel()):
            continue
        return Region(words=f"what is {words} the diagonal of the last two dimensions", filled=count / size)
    return None


def _box(bad: Tensor, count: int) -> Region | None:
    """Find the entries of each dimension that hold all of it, if they are far fewer than chance would need."""
    places = _places(bad)
    size, total = math.prod(map(len, places)), bad.numel()
    if size == total or count < LEAST_FILLED * size or not _is_no_chance(count, size / total):
        return None
    words = _block_in_words(places, bad.shape)
    return Region(words=words, filled=count / size) if words else None


def _rest_of_a_box(bad: Tensor, good: int) -> Region | None:
    """Find that what is good is a block, so that what is bad lies all around it."""
    places = _places(~bad)
    total = bad.numel()
    if good < LEAST_GOOD or math.prod(map(len, places)) != good or not _is_no_chance(good, good / total):
        return None
    if any(int(entries[-1]) != len(entries) - 1 for entries in places):
        return None  # a grid that is too small leaves the first blocks; elsewhere a value is right by chance
    words = _block_in_words(places, bad.shape)
    return Region(words=f"all but {words}", filled=1.0) if words else None


def _rows(bad: Tensor, count: int) -> Region | None:
    """Find rows equally far apart, counted through all dimensions but the last."""
    if bad.dim() < 3:
        return None
    rows = bad.flatten(0, -2)
    entries = rows.any(dim=1).nonzero().flatten()
    size = len(entries) * rows.shape[1]
    if size == bad.numel() or count < LEAST_FILLED * size or not _is_no_chance(count, size / bad.numel()):
        return None
    words = entries_in_words(entries, rows.shape[0])
    return Region(words=words.replace("entries", "rows"), filled=count / size) if words else None


def _is_no_chance(count: int, share: float) -> bool:
    """Return whether scattered elements would hardly all fall into this share of the whole by chance."""
    return count * math.log(share) < math.log(CHANCE)


def _places(mask: Tensor) -> list[Tensor]:
    """Return, for each dimension, the sorted entries in which the mask is true anywhere."""
    if mask.dim() == 1:  # `any` over no dimensions is one over all
        return [mask.nonzero().flatten()]
    return [mask.any([d for d in range(mask.dim()) if d != dim]).nonzero().flatten() for dim in range(mask.dim())]


def _block_in_words(places: list[Tensor], shape: torch.Size) -> str:
    """Name the entries of each dimension that is not whole; empty where they follow no pattern."""
    parts = []
    for dim, (entries, size) in enumerate(zip(places, shape, strict=True)):
        if len(entries) < size:
            named = entries_in_words(entries, size)
            if not named:
                return ""
            parts.append(f"{named} of dimension {dim}")
    return " and ".join(parts)


def entries_in_words(entries: Tensor, size: int) -> str:
    """Name sorted entries of one dimension: a run at either end or inside, or equally far apart; empty if neither."""
    first, last, count = int(entries[0]), int(entries[-1]), len(entries)
    if count == 1 and first not in {0, size - 1}:
        return f"entry {first} of {size}"
    if last - first == count - 1:
        if first and last < size - 1:
            return f"entries {first} to {last} of {size}"
        return f"the {'last' if first else 'first'}{f' {count}' if count > 1 else ''} of {size} entries"
    if step := _stripes(entries, size):
        return f"every {ordinal(step)} of {size} entries"
    is_good = torch.ones(size, dtype=torch.bool, device=entries.device)
    is_good[entries] = False
    if step := _stripes(is_good.nonzero().flatten(), size):
        return f"all but every {ordinal(step)} of {size} entries"
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
