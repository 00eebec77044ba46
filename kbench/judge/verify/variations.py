"""Other valid values of the inputs, and badly conditioned ones: a solution was not made for one kind of them."""

import functools
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from kbench.core.levels import Level
from kbench.core.values import UNATTAINABLE_ABOVE
from kbench.judge.reference.drawing import is_constant_mask, is_value
from kbench.numerics import elements

SCALE_UP, SCALE_DOWN = 8.0, 2.0**-7
MANY = 256
USUAL_SAMPLES = (4, 8, 10, 16, 32, 64, 100, 128, 256, 512, 1000, 1024)
SAMPLED_SHARE, MOST_SAMPLES = 16, 1024
"""Each way of sampling keeps at most one element in SAMPLED_SHARE; the first three keep at most MOST_SAMPLES."""
CHANGED_SHARE, LEAST_CHANGED = 2048, 4
"""One element in this many is changed: 64 samples meet none of them in 97 of 100 draws, and a mean still tells."""
DIMENSIONS = 4
"""Dimensions in which one entry is made to stand out."""
CANCELLING = 4.0
"""Multiple of the tolerance that is allowed if terms cancel: fp32 misses by a little, TF32 by a factor of 100."""


def shifted(x: Tensor) -> Tensor:
    """Return x + 3; zeros stay."""
    return moved_by(3, x)


def centred(x: Tensor) -> Tensor:
    """Return x less its mean, where errors of factors that are rounded no longer average out; zeros stay."""
    return moved_by(-x.mean(), x) if x.numel() else x


def moved_by(distance: float | Tensor, x: Tensor) -> Tensor:
    """Return x + distance; zeros stay as in `with_zeros_of`."""
    return with_zeros_of(x, x + distance)


def with_zeros_of(x: Tensor, changed: Tensor) -> Tensor:
    """Put the zeros of x into what it was changed to: among other values they are structure (a triangle, a mask)."""
    if x.any():
        for _, there, here in elements.chunks(changed, x):  # a mask of the whole would be a quarter of the input
            there.mul_(here != 0)
    return changed


def spiked(dimension: int, x: Tensor) -> Tensor:
    """Return x with one random entry of a dimension scaled up and the others down: no sample of them stands for all.

    A symmetric matrix stays symmetric, and definite.
    """
    count = x.shape[dimension]
    factors = torch.full((count,), min(SCALE_DOWN, SCALE_UP / 2 / count), device=x.device, dtype=x.abs().dtype)
    factors[torch.randint(count, (), device=x.device)] = SCALE_UP  # twice what all others are together, or more
    along = factors.view([count if number == dimension else 1 for number in range(x.dim())])
    if dimension >= x.dim() - 2 >= 0 and x.shape[-1] == x.shape[-2] and torch.equal(x, x.mT):
        return x * factors.sqrt() * factors.sqrt()[:, None]
    return x * along


def mixed(x: Tensor) -> Tensor:
    """Return x with each sixth of its first dimension changed in another way, in a random order.

    Where the first dimension is shorter than that, all of x is changed in one way.
    """
    dimensions = [dimension for dimension in range(x.dim()) if x.shape[dimension] > 1]
    dimension = dimensions[int(torch.randint(len(dimensions), ()))] if dimensions else None
    spikes = [] if dimension is None else [functools.partial(spiked, dimension)]
    changes: list[Callable[[Tensor], Tensor]] = [*WAYS, *spikes]
    order: list[int] = torch.randperm(len(changes)).tolist()
    if not x.dim() or x.shape[0] < len(changes):
        return changes[order[0]](x)
    y = torch.empty_like(x)
    for number, part, there in zip(order, x.tensor_split(len(changes)), y.tensor_split(len(changes)), strict=True):
        there.copy_(changes[number](part))
    return y


def kept_at_samples(x: Tensor) -> Tensor:
    """Return x with other values everywhere but at a few places: at both ends, in strides, by chance.

    A symmetric matrix stays symmetric elsewhere.
    """
    count = x.numel()
    factors = torch.empty_like(x.abs() if x.is_complex() else x).uniform_(0.5, 1.5)
    if x.dim() >= 2 and x.shape[-1] == x.shape[-2] and torch.equal(x, x.mT):
        factors = (factors + factors.mT) / 2
    y = factors.mul_(x) if not x.is_complex() else x * factors
    most = count // SAMPLED_SHARE
    places = [torch.randint(count, (min(most, MOST_SAMPLES),))]
    places += [torch.arange(min(most, MOST_SAMPLES)), count - 1 - torch.arange(min(most, MOST_SAMPLES))]
    places += [torch.arange(0, count, count // samples) for samples in USUAL_SAMPLES if samples <= most]
    index = _index(torch.cat(places), x)
    y[index] = x[index]
    return y


def changed_in_places(x: Tensor) -> Tensor:
    """Return x with a few elements scaled up, at random places that few samples would meet."""
    changed = max(LEAST_CHANGED, x.numel() // CHANGED_SHARE)
    index = _index(torch.randint(x.numel(), (changed,)), x)
    y = x.clone()
    y[index] = SCALE_UP * x[index]
    return y


def _index(places: Tensor, x: Tensor) -> tuple[Tensor, ...]:
    """Return the index of elements by their number in the order of the shape, whatever the strides."""
    places, index = places.to(x.device), []
    for size in reversed(x.shape):  # `torch.unravel_index` imports sympy, which takes most of a second
        index.append(places % size)
        places = places // size
    return tuple(reversed(index))


def has_many(leaf: Any) -> bool:
    """Return whether a leaf has more values than anyone who samples would read."""
    return is_value(leaf) and leaf.numel() >= MANY


def has_entries(dimension: int, leaf: Any) -> bool:
    """Return whether a leaf is a tensor of values with several entries in a dimension."""
    return is_value(leaf) and leaf.dim() > dimension and leaf.shape[dimension] > 1


def mean_offset(stds: float, x: Tensor) -> Tensor:
    """Return x with its mean moved to `stds` standard deviations, where a single-pass variance loses its digits."""
    if x.numel() < 2:
        return x
    return moved_by(stds * x.std() - x.mean(), x)


def constant_rows(x: Tensor) -> Tensor:
    """Return x with its first half constant along all but the first dimension."""
    y = x.clone()
    half = y[: max(1, y.shape[0] // 2)] if y.dim() else y
    half.fill_(0.5)
    return with_zeros_of(x, y)


def flipped(x: Tensor) -> Tensor:
    """Return a mask with a tenth of its elements flipped."""
    return x ^ (torch.rand(x.shape, device=x.device) < 0.1)


def wide_range(x: Tensor) -> Tensor:
    """Return x with magnitudes spread over 1e-6 to 1e6."""
    exponents = 12 * torch.rand(x.shape, device=x.device, dtype=x.abs().dtype) - 6
    return with_zeros_of(x, torch.sgn(x - x.mean()) * 10**exponents)


def planted(value: float, x: Tensor) -> Tensor:
    """Return x with `value` in one element of its first entry; other entries must stay as they are."""
    y = x.clone()
    if y.numel():
        y[elements.unravel(y[0].numel() // 2 if y.dim() else 0, y.shape)] = value
    return y


@dataclass(frozen=True, slots=True, kw_only=True)
class Variation:
    """A change of the inputs' values, and which level asks for them."""

    code: str
    level: Level
    transform: Callable[[Any], Any]
    applies: Callable[[Any], bool] = is_value
    """To which leaves of the inputs."""
    within: float = UNATTAINABLE_ABOVE
    """How far from fp64, in tolerances, the reference may be for a fault to be told from its own rounding."""
    words: str = ""
    """Which inputs these are, where the code does not say it."""
    is_last: bool = True
    """Whether it is the last word: else others decide where it is wrong or cannot decide, and nothing is noted."""

    @property
    def lacking(self) -> str:
        """What a solution lacks that is wrong on them: a key of `levels.PROPERTIES`."""
        return self.code.partition("_in_dim_")[0].rstrip("_0123456789")

    @property
    def inputs(self) -> str:
        """The inputs in words."""
        return f"{self.code.replace('_', ' ')} inputs" if not self.words else f"inputs {self.words}"


WAYS: tuple[Callable[[Tensor], Tensor], ...] = (
    *(operator.neg, shifted, centred),
    *(functools.partial(operator.mul, scale) for scale in (SCALE_UP, SCALE_DOWN)),
)
"""Ways to change values that are as valid as the problem's own."""
SPIKED = tuple(
    Variation(
        code=f"spikes_in_dim_{dimension}",
        level=Level.MODULE,
        transform=functools.partial(spiked, dimension),
        applies=functools.partial(has_entries, dimension),
    )
    for dimension in range(DIMENSIONS)
)
VARIATIONS = (
    Variation(code="negated", level=Level.MODULE, transform=operator.neg),
    Variation(code="shifted", level=Level.MODULE, transform=shifted),
    Variation(code="centred", level=Level.MODULE, transform=centred, within=CANCELLING),
    Variation(code="scaled_up", level=Level.MODULE, transform=functools.partial(operator.mul, SCALE_UP)),
    Variation(code="scaled_down", level=Level.MODULE, transform=functools.partial(operator.mul, SCALE_DOWN)),
    *SPIKED,
    Variation(code="flipped_masks", level=Level.MODULE, transform=flipped, applies=is_constant_mask),
    Variation(code="mean_offset_30", level=Level.GENERAL, transform=functools.partial(mean_offset, 30.0)),
    Variation(code="mean_offset_100", level=Level.GENERAL, transform=functools.partial(mean_offset, 100.0)),
    Variation(code="constant_rows", level=Level.GENERAL, transform=constant_rows),
    Variation(code="denormals", level=Level.GENERAL, transform=functools.partial(operator.mul, 1e-40)),
    Variation(code="wide_range", level=Level.GENERAL, transform=wide_range),
    Variation(code="planted_nan", level=Level.GENERAL, transform=functools.partial(planted, float("nan"))),
    Variation(code="planted_inf", level=Level.GENERAL, transform=functools.partial(planted, float("inf"))),
)
RESEMBLING = (
    Variation(
        code="same_at_samples",
        level=Level.MODULE,
        transform=kept_at_samples,
        applies=has_many,
        words="that a few samples cannot tell from the last call's",
    ),
    Variation(
        code="changed_in_places",
        level=Level.MODULE,
        transform=changed_in_places,
        applies=has_many,
        words="that differ from the last call's in a few places",
    ),
)
"""Inputs that resemble those of the call before: a result that is remembered by a few samples of these is wrong."""
SMALL_WEIGHTS = 1 / SCALE_UP
UNDER_SMALL_WEIGHTS = Variation(
    code="small_weights",
    level=Level.MODULE,
    transform=lambda leaf: leaf,
    within=CANCELLING,
    words="under weights an eighth as large",
)
"""The problem's own inputs, where all parameters are multiplied by SMALL_WEIGHTS."""
VALID = tuple(v for v in VARIATIONS if v.level is Level.MODULE)
"""Values as valid as the problem's own, which cost one temporary of the inputs' size."""
MIXED = Variation(code="mixed", level=Level.MODULE, transform=mixed, is_last=False)
"""Several of them in one call."""
EXTREME = tuple(v for v in VARIATIONS if v.level is Level.GENERAL)
"""Ill-conditioned and non-finite values."""
