"""The reference with one operation changed: another epsilon or variance, or a number or mask left out."""

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from kbench.judge.diagnosis.attention import taken_apart
from kbench.numerics.operators import OperatorMode

SMALL_NUMBER = 1e-2
"""A constant up to this size that is added, or that bounds values from below, counts as an epsilon."""
EPSILONS = (0.0, 1e-12, 1e-10, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
"""Values that are tried: every one was seen in published kernels."""
NORMS = {"native_layer_norm": 2, "native_group_norm": 1, "native_batch_norm": 1}
"""Operators that compute mean and variance, with the position of their weight; the bias is next to it."""
TRIANGLES, FILLS = {"tril", "triu", "tril_", "triu_"}, {"masked_fill", "masked_fill_"}
FAR_BELOW = -1e4
"""A constant up to this value that is filled in counts as a mask: the softmax of it is 0."""
ADDS, PRODUCTS, BOUNDS = {"add", "add_", "sub", "sub_"}, {"mul", "mul_", "div", "div_"}, {"clamp_min", "clamp_min_"}


@dataclass(slots=True)
class Rewritable:
    """What a run of the reference did that could be done otherwise."""

    epsilons: set[float] = field(default_factory=set)
    variances: set[str] = field(default_factory=set)
    has_mask: bool = False
    numbers: dict[tuple[str, float], None] = field(default_factory=dict)
    """Numbers that are added or multiplied by, as (`bias` or `scale`, number), in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What is done otherwise; a change without fields changes nothing, and only looks."""

    epsilon: float | None = None
    outside: bool = False
    """Whether an epsilon is added to the root instead of to what the root is taken of."""
    other_variance: bool = False
    """Whether variances divide by n - 1 in place of n, and the reverse."""
    without_mask: bool = False
    """Whether triangles are whole, and masks filled in nowhere."""
    without: tuple[str, float] | None = None
    """A number that is left out, as in `Rewritable.numbers`."""


class _Rewriting(OperatorMode):
    def __init__(self, change: Change, seen: Rewritable):
        super().__init__()
        self._change = change
        self._seen = seen

    def __torch_dispatch__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _rewritten(func, list(args), dict(kwargs or {}), self._change, self._seen)


@contextlib.contextmanager
def rewriting(change: Change) -> Iterator[Rewritable]:
    """Run what is computed inside with a change; yields what could be changed."""
    seen = Rewritable()
    with taken_apart(), _Rewriting(change, seen):
        yield seen


def _rewritten(func: Any, args: list[Any], kwargs: dict[str, Any], change: Change, seen: Rewritable) -> Any:
    name = func.overloadpacket.__name__
    if name in NORMS and (name != "native_batch_norm" or args[5]):
        return _norm(func, args, kwargs, change, seen)
    if name in {"var", "std", "var_mean"} and func._overloadname == "correction":  # noqa: SLF001 - its only name
        seen.variances.add(name)
        if change.other_variance:
            kwargs["correction"] = 0 if kwargs.get("correction", 1) else 1
        return func(*args, **kwargs)
    if name in TRIANGLES or (name in FILLS and float(args[2]) <= FAR_BELOW):
        seen.has_mask = True
        return args[0] if change.without_mask else func(*args, **kwargs)
    _numbers(func, args, change, seen)
    return func(*args, **kwargs)


def _numbers(func: Any, args: list[Any], change: Change, seen: Rewritable) -> None:
    """Note epsilons, summands and factors among the arguments of an operator, and change one."""
    name, number = func.overloadpacket.__name__, _number(args)
    if number is not None and name in ADDS | BOUNDS and 0 < number <= SMALL_NUMBER:
        seen.epsilons.add(number)
        if change.epsilon is not None and not change.outside:
            args[1] = change.epsilon
    elif number is not None and name in ADDS | PRODUCTS:
        kind = "bias" if name in ADDS else "scale"
        seen.numbers.setdefault((kind, number))
        if change.without == (kind, number):
            args[1] = 0 if kind == "bias" else 1
    for place, described in enumerate(func._schema.arguments):  # noqa: SLF001 - where an `eps` is says only this
        if described.name in {"eps", "epsilon"} and place < len(args) and isinstance(args[place], float):
            seen.epsilons.add(args[place])
            if change.epsilon is not None and not change.outside:
                args[place] = change.epsilon


def _number(args: list[Any]) -> float | None:
    """Return the second operand where it is a Python number other than 0 and 1, which do nothing."""
    second = args[1] if len(args) > 1 else None
    return float(second) if isinstance(second, int | float) and second not in {0, 1} else None


def _norm(func: Any, args: list[Any], kwargs: dict[str, Any], change: Change, seen: Rewritable) -> Any:
    """Run a norm with its epsilon or variance changed: without weight and bias first, which are put on again."""
    name, at = func.overloadpacket.__name__, NORMS[func.overloadpacket.__name__]
    last = len(args) - 1
    epsilon = args[last]
    seen.epsilons.add(epsilon)
    seen.variances.add(name)
    if change.epsilon is not None and not change.outside:
        args[last] = change.epsilon
    if not (change.other_variance or change.outside):
        return func(*args, **kwargs)
    x, weight, bias = args[0], args[at], args[at + 1]
    args[at] = args[at + 1] = None
    ratio = 1.0
    if change.other_variance:
        count = _terms(name, args)
        ratio = count / (count - 1) if count > 1 else math.nan
    args[last] = 0.0 if change.outside else epsilon / ratio
    plain, *statistics = func(*args, **kwargs)
    plain = plain / math.sqrt(ratio)
    if change.outside:
        inverse = spread(name, args, statistics[1], x)
        plain = plain / (1 + (epsilon if change.epsilon is None else change.epsilon) * inverse)
    shape = affine_shape(name, args)
    plain = plain if weight is None else plain * weight.reshape(shape)
    return (plain if bias is None else plain + bias.reshape(shape), *statistics)


def _terms(name: str, args: list[Any]) -> int:
    """Return of how many values a norm takes one variance."""
    x = args[0]
    if name == "native_layer_norm":
        return math.prod(args[1])
    if name == "native_group_norm":
        return int(x.numel() // (args[3] * args[6]))
    return int(x.numel() // x.shape[1])


def spread(name: str, args: Sequence[Any], inverse: Tensor, x: Tensor) -> Tensor:
    """Return the means or inverse deviations of a norm in a shape that broadcasts with its values."""
    if name == "native_layer_norm":
        return inverse
    if name == "native_group_norm":
        per_channel = inverse.reshape(args[3], args[6], 1).expand(-1, -1, args[4] // args[6])
        return per_channel.reshape(args[3], args[4], *[1] * (x.dim() - 2))
    return inverse.reshape(affine_shape(name, args))


def affine_shape(name: str, args: Sequence[Any]) -> list[int]:
    """Return the shape in which a norm's weight multiplies its values."""
    if name == "native_layer_norm":
        return list(args[1])
    return [1, args[0].shape[1], *[1] * (args[0].dim() - 2)]
