"""Other valid values of the inputs, and badly conditioned ones."""

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kbench.core.values import NARROW, UNATTAINABLE_ABOVE
from kbench.judge.reference.drawing import Inputs, is_constant_mask, is_value
from kbench.judge.reference.structure import with_zeros_of
from kbench.numerics import elements

SCALE_UP, SCALE_DOWN = 8.0, 2.0**-7
GLANCES = 2
"""Draws of changes in few places, and twice as many at a smaller shape: one may change a sampled element."""


def centred(x: Tensor) -> Tensor:
    """Return x minus its mean, so that errors of rounded factors do not average out; zeros stay."""
    return moved_by(-x.mean(), x) if x.numel() else x


def moved_by(distance: float | Tensor, x: Tensor) -> Tensor:
    """Return x + distance; zeros stay as in `with_zeros_of`."""
    return with_zeros_of(x, x + distance)


def spiked(dimension: int, x: Tensor) -> Tensor:
    """Return x with one random entry of a dimension scaled up, the others down; symmetric matrices stay symmetric."""
    count = x.shape[dimension]
    factors = torch.full((count,), min(SCALE_DOWN, SCALE_UP / 2 / count), device=x.device, dtype=x.abs().dtype)
    factors[torch.randint(count, (), device=x.device)] = SCALE_UP  # at least twice the sum of all others
    along = factors.view([count if number == dimension else 1 for number in range(x.dim())])
    if dimension >= x.dim() - 2 >= 0 and x.shape[-1] == x.shape[-2] and torch.equal(x, x.mT):
        return x * factors.sqrt() * factors.sqrt()[:, None]
    return x * along


def mixed(x: Tensor) -> Tensor:
    """Return x with each sixth of its first dimension changed in another way; a shorter dimension in one way."""
    changes: list[Callable[[Tensor], Tensor]] = [*WAYS]
    if dimensions := [dimension for dimension in range(x.dim()) if x.shape[dimension] > 1]:
        changes.append(partial(spiked, dimensions[int(torch.randint(len(dimensions), ()))]))
    order: list[int] = torch.randperm(len(changes)).tolist()
    if not x.dim() or x.shape[0] < len(changes):
        return changes[order[0]](x)
    y = torch.empty_like(x)
    for number, part, there in zip(order, x.tensor_split(len(changes)), y.tensor_split(len(changes)), strict=True):
        there.copy_(changes[number](part))
    return y


def kept_at_samples(x: Tensor) -> Tensor:
    """Return x with other values except at a few places: both ends, strides, random ones.

    Each way of sampling keeps at most one element in 16.
    """
    count = x.numel()
    factors = torch.empty_like(x.abs() if x.is_complex() else x).uniform_(0.5, 1.5)
    y = factors.mul_(x) if not x.is_complex() else x * factors
    most = count // 16
    first = torch.arange(min(most, 1024))
    places = [torch.randint(count, first.shape), first, count - 1 - first]
    usual = (4, 8, 10, 16, 32, 64, 100, 128, 256, 512, 1000, 1024)
    places += [torch.arange(0, count, count // samples) for samples in usual if samples <= most]
    index = _index(torch.cat(places), x)
    y[index] = x[index]
    return y


def changed_in_places(x: Tensor) -> Tensor:
    """Return x with a few elements, at random places that samples seldom include, halfway to one of the largest of x.

    All values lie among those of x: a solution that is right for the problem's own values only remembers nothing.
    """
    changed = max(4, x.numel() // 2048)  # 64 samples miss all of them in 97 of 100 draws
    index = _index(torch.randint(x.numel(), (changed,)), x)
    some = x[_index(torch.randint(x.numel(), (512,)), x)]
    y = x.clone()
    y[index] = (x[index] + some[some.abs().argmax()]) / 2
    return y


def swapped_in_places(x: Tensor) -> Tensor:
    """Return x with a few elements in each other's places, so that its sum, its norm and most samples stay."""
    places = torch.randint(x.numel(), (max(8, x.numel() // 1024),)).unique()
    y = x.clone()
    y[_index(places, x)] = x[_index(places.roll(1), x)]
    return y


def changed_in_few_places(ways: Sequence[Callable[[Tensor], Tensor]], x: Tensor) -> Tensor:
    """Return x with one element changed in each of these ways, at places that samples seldom include."""
    y, places = x.clone(), unseen(x, len(ways))
    ways = [torch.logical_not] * len(ways) if x.dtype == torch.bool else ways
    for place, way in zip(places.tolist(), ways, strict=False):
        index = _index(torch.tensor([place]), x)
        y[index] = way(x[index])
    return y


def unseen(x: Tensor, count: int) -> Tensor:
    """Return random places of large values; in every second draw, places that samples seldom include.

    Those are not near the ends, nor the first entries of a dimension, nor multiples of small numbers.
    """
    places, ends = torch.randint(x.numel(), (512,)), min(x.numel() // 16, 1024)
    if torch.rand(()) < 1 / 2:
        along = zip(_index(places, x), x.shape, strict=True)
        score = sum(_is_no_multiple(index.cpu(), size).int() for index, size in along)
        score += _is_no_multiple(places, x.numel()).int() + ((places >= ends) & (places < x.numel() - ends)).int()
        places = places[score.argsort(descending=True)]
    places = places[:32]
    sizes = x[_index(places, x)].to(torch.complex64).abs().cpu()
    largest = places[sizes.argsort(descending=True)[: max(count, len(places) // 2)]]
    return largest[torch.randperm(len(largest))[:count]]


def _is_no_multiple(places: Tensor, size: int) -> Tensor:
    """Return a mask of later places that are no multiple of a small prime; a short dimension has all places."""
    primes = (2, 3, 5, 7, 11, 13, 17)
    if size < 32:
        return torch.ones_like(places, dtype=torch.bool)
    return (torch.gcd(places, torch.tensor(math.prod(primes))) == 1) & (places > primes[-1])


def _index(places: Tensor, x: Tensor) -> tuple[Tensor, ...]:
    """Return the index of elements by their number in the order of the shape, for any strides."""
    index = np.unravel_index(places.cpu().numpy(), x.shape)  # torch's own imports sympy: most of a second
    return tuple(torch.as_tensor(along, device=x.device) for along in index)


def has_many(leaf: Any) -> bool:
    """Return whether a leaf has more values than a solution that samples reads."""
    return is_value(leaf) and leaf.numel() >= 256


def has_many_or_is_mask(leaf: Any) -> bool:
    """Return whether a leaf has many values, or is a mask of one value that has many elements."""
    return has_many(leaf) or (is_constant_mask(leaf) and leaf.numel() >= 256)


def has_entries(dimension: int, leaf: Any) -> bool:
    """Return whether a leaf is a tensor of values with several entries in a dimension."""
    return is_value(leaf) and leaf.dim() > dimension and leaf.shape[dimension] > 1


def mean_offset(stds: float, x: Tensor) -> Tensor:
    """Return x with its mean moved to `stds` standard deviations, where a single-pass variance loses its digits."""
    if x.numel() < 2:
        return x
    return moved_by(stds * x.std() - x.mean(), x)


def far_below(x: Tensor) -> Tensor:
    """Return x with a mean so far below zero that all its powers of e vanish, unless its maximum is subtracted.

    It is 128 standard deviations, each at least 1: e^-104 is the smallest power that fp32 holds.
    """
    distance = x.std().clamp(min=1.0) if x.numel() > 1 else 1.0
    return moved_by(-128 * distance - x.mean(), x) if x.numel() else x


def constant_rows(x: Tensor) -> Tensor:
    """Return x with its first half constant along all but the first dimension."""
    y = x.clone()
    half = y[: max(1, y.shape[0] // 2)] if y.dim() else y
    half.fill_(11 / 16)  # sums of it are exact, and it is no usual boundary
    return with_zeros_of(x, y)


def flipped(x: Tensor) -> Tensor:
    """Return a mask with a tenth of its elements flipped."""
    return x ^ (torch.rand(x.shape, device=x.device) < 0.1)


def wide_range(x: Tensor) -> Tensor:
    """Return x with magnitudes spread over 1e-6 to 1e6."""
    exponents = 12 * torch.rand(x.shape, device=x.device, dtype=x.abs().dtype) - 6
    return with_zeros_of(x, torch.sgn(x - x.mean()) * 10**exponents)


def planted(value: float, x: Tensor) -> Tensor:
    """Return x with `value` in one element of its first entry; results of other entries must not change."""
    y = x.clone()
    if y.numel():
        y[elements.unravel(y[0].numel() // 2 if y.dim() else 0, y.shape)] = value
    return y


@dataclass(frozen=True, slots=True, kw_only=True)
class Variation:
    """A change of the inputs' values."""

    name: str
    lack: str = "values"
    """Property that a solution lacks if it is wrong on these inputs: a key of `levels.PROPERTIES`."""
    transform: Callable[[Any], Any]
    applies: Callable[[Any], bool] = is_value
    """Selects the leaves of the inputs that are changed."""
    within: float = UNATTAINABLE_ABOVE
    """Largest error of the reference, in tolerances from fp64, at which the inputs decide."""
    may_overflow: bool = False
    """True if the inputs decide also where the reference is inaccurate or not finite on them."""
    words: str = ""
    """Description of the inputs, if the name does not suffice."""
    is_last: bool = True
    """False if other variations decide after a wrong answer or without a decision, so that nothing is recorded."""

    @property
    def is_usual(self) -> bool:
        """True for valid values; False for badly conditioned and non-finite ones."""
        return self.lack == "values"

    def changes(self, inputs: Inputs) -> bool:
        """Return whether it changes a problem's inputs."""
        return inputs.varies(self.transform, self.applies)

    @property
    def inputs(self) -> str:
        """The inputs in words."""
        return f"{self.name.replace('_', ' ')} inputs" if not self.words else f"inputs {self.words}"


VALID = (
    Variation(name="negated", transform=operator.neg),
    Variation(name="shifted", transform=partial(moved_by, 3)),
    Variation(name="centred", transform=centred, within=NARROW),
    Variation(name="scaled_up", transform=partial(operator.mul, SCALE_UP)),
    Variation(name="scaled_down", transform=partial(operator.mul, SCALE_DOWN)),
    *(
        Variation(name=f"spikes_in_dim_{n}", transform=partial(spiked, n), applies=partial(has_entries, n))
        for n in range(4)  # an image has four dimensions
    ),
    Variation(name="flipped_masks", transform=flipped, applies=is_constant_mask),
)
"""Valid values, each of which takes one temporary of the inputs' size."""
WAYS = [v.transform for v in VALID if v.applies is is_value]
MIXED = Variation(
    name="mixed_values", transform=mixed, is_last=False, words="of all kinds of values at once, each kind in other rows"
)
"""Several kinds in one call; if the reference does not accept them together, each alone decides."""
OTHER_SIGN, OTHER_SIZE = (operator.neg, torch.zeros_like), (partial(operator.mul, SCALE_UP), partial(moved_by, 3))
IN_FEW_PLACES = tuple(
    Variation(
        name="changed_in_places",
        transform=partial(changed_in_few_places, ways),
        applies=has_many_or_is_mask,
        words="of which a few have another sign, level or size",
        is_last=False,
    )
    for ways in ((*OTHER_SIGN, *OTHER_SIZE), (operator.neg, *OTHER_SIZE), OTHER_SIZE)
)
"""Changes at places that samples seldom include. The first change that the reference accepts decides."""


def few_places(inputs: Inputs) -> list[Variation]:
    """Return those that change a problem's inputs."""
    return [one for one in IN_FEW_PLACES if one.changes(inputs)]


EXTREME = tuple(
    Variation(
        name=name,
        lack="nonfinite" if name.startswith("planted") else "conditioning",
        transform=change,
        # A reference of positive values, such as a logarithm, has no value far below zero.
        may_overflow=change is not far_below,
    )
    for name, change in (
        ("mean_offset_30", partial(mean_offset, 30.0)),
        ("mean_offset_100", partial(mean_offset, 100.0)),
        ("mean_offset_-128", far_below),
        ("constant_rows", constant_rows),
        ("denormals", partial(operator.mul, 1e-40)),
        ("wide_range", wide_range),
        ("planted_nan", partial(planted, math.nan)),
        ("planted_inf", partial(planted, math.inf)),
    )
)
VARIATIONS = (*VALID, *EXTREME)
RESEMBLING = tuple(
    Variation(name=name, transform=transform, applies=has_many, words=words)
    for name, transform, words in (
        ("same_at_samples", kept_at_samples, "that equal the last call's at a few samples"),
        ("changed_in_places", changed_in_places, "that differ from the last call's in a few places"),
        ("swapped_in_places", swapped_in_places, "that have the last call's values, a few of them in other places"),
    )
)
"""Inputs that resemble those of the call before, so that a result remembered by samples or by sums is wrong."""
UNDER_SMALL_WEIGHTS = Variation(
    name="small_weights", transform=lambda leaf: leaf, within=NARROW, words="under weights an eighth as large"
)
"""The problem's own inputs, with all parameters divided by SCALE_UP."""
