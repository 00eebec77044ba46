"""Products, softmax, sums and their like: over another dimension, without a tail, or one in place of another."""

import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from kbench.judge.diagnosis.slips.call import OperatorCall, Slip, left_out, shorter

Reduction = Callable[[Tensor, list[int], bool], Tensor]
"""Takes a tensor, the dimensions that are reduced, and whether these are kept."""
SAME_SHAPE = {"_softmax", "_log_softmax", "cumsum", "cumprod"}
REDUCING = {"sum", "mean", "amax", "amin", "logsumexp", "prod", "argmax", "argmin", "max", "min", "var", "std"}
PLACES = {"linalg_vector_norm": 2}
"""Position of the dimensions where it is not 1."""
WORDS = {"sum": "the sum", "mean": "the mean", "amax": "the largest value", "amin": "the smallest value"}
OTHERS: dict[str, dict[str, Reduction]] = {
    **{own: {WORDS[name]: getattr(torch, name) for name in WORDS if name != own} for own in WORDS},
    "argmax": {"`argmin`": lambda x, dims, keepdim: x.argmin(dims[0], keepdim)},
    "argmin": {"`argmax`": lambda x, dims, keepdim: x.argmax(dims[0], keepdim)},
    "logsumexp": {
        "the largest value": torch.amax,
        "a sum of exponentials": lambda x, dims, keepdim: x.exp().sum(dims, keepdim),
    },
    "_softmax": {
        "`log_softmax`": lambda x, dims, _: x.log_softmax(dims[0]),
        "exponentials that are not divided by their sum": lambda x, *_: x.exp(),
        "exponentials less the largest that are not divided by their sum": lambda x, dims, _: (
            x - x.amax(dims, keepdim=True)
        ).exp(),
        "`sigmoid`": lambda x, *_: x.sigmoid(),
    },
    "_log_softmax": {"`softmax`": lambda x, dims, _: x.softmax(dims[0])},
}
"""By operator, what is taken for it."""
LOSSES = ("mse_loss", "l1_loss", "smooth_l1_loss")
NAMES = ("none", "mean", "sum")
"""Reductions of losses, by the number that operators have for them."""
FACTORS = {
    **dict.fromkeys(("mm", "bmm", "mv", "dot", "linear"), (0, 1)),
    **dict.fromkeys(("addmm", "baddbmm", "addmv"), (1, 2)),
}
"""By operator, the positions of its factors: the last dimension of the first is summed over."""


def slips(call: OperatorCall) -> Iterator[Slip]:
    """Yield what may be done in place of a product, a reduction, a softmax or a running sum."""
    yield from _products(call)
    x = call.argument(0)
    if not isinstance(x, Tensor):
        return
    if call.name in SAME_SHAPE | REDUCING | set(PLACES):
        dims = _dims(call, x)
        yield from _kinds(call, x, dims)
        if len(dims) == x.dim() > 1 and call.name in {"sum", "mean"} and not _keeps(call):
            flat = OperatorCall(func=call.func, args=[x.flatten(), *[[0]] * (len(call.args) > 1)])
            yield from _tails(flat, x.flatten(), 0)
        if len(dims) == 1:
            yield from _over_others(call, x, dims[0])
            yield from _tails(call, x, dims[0])
    yield from _losses(call)


def _products(call: OperatorCall) -> Iterator[Slip]:
    """Yield a product without its last terms, or without its first."""
    if call.name not in FACTORS:
        return
    first, second = FACTORS[call.name]
    a, b = call.args[first], call.args[second]
    length = a.shape[-1]
    across = -1 if b.dim() == 1 or call.name == "linear" else -2
    kinds = [(0, kept, left_out(kept, length, "a product")) for kept in shorter(length)]
    if length > 1 and call.name != "linear":
        kinds.append((1, length - 1, f"leaves out the first of {length} terms of a product"))
    for begin, kept, sentence in kinds:
        changes = {first: a.narrow(-1, begin, kept), second: b.narrow(across, begin, kept)}
        yield "missing_tail", sentence, functools.partial(call.having, changes)


def _dims(call: OperatorCall, x: Tensor) -> list[int]:
    """Return what is reduced; all dimensions where none is named."""
    given = call.argument(PLACES.get(call.name, 1))
    dims = [given] if isinstance(given, int) else list(given or range(x.dim()))
    return [dim % max(x.dim(), 1) for dim in dims]


def _keeps(call: OperatorCall) -> bool:
    return bool(call.kwargs.get("keepdim", call.argument(PLACES.get(call.name, 1) + 1, False)))


def _over_others(call: OperatorCall, x: Tensor, dim: int) -> Iterator[Slip]:
    """Yield the same over each other dimension, where the result has the same shape or may be broadcast."""
    place = PLACES.get(call.name, 1)
    for other in range(x.dim()):
        left, right = (x.movedim(n, -1).shape[:-1] for n in (other, dim))
        if other != dim and (left == right or call.name in SAME_SHAPE or _keeps(call)):
            changes = {place: other if isinstance(call.args[place], int) else [other]}
            sentence = f"takes `{call.shown}` over dimension {other}, where the reference takes it over dimension {dim}"
            yield "other_dimension", sentence, functools.partial(call.having, changes)


def _tails(call: OperatorCall, x: Tensor, dim: int) -> Iterator[Slip]:
    """Yield the same without the last terms; of a mean, also divided by the number of all."""
    if call.name in {"cumsum", "cumprod"}:
        sentence = f"takes `{call.shown}` from the end, where the reference takes it from the beginning"
        yield "other_reduction", sentence, lambda: call.having({0: x.flip(dim)}).flip(dim)
        return
    length = x.shape[dim] if x.dim() else 1
    for kept in shorter(length):
        sentence = left_out(kept, length, f"`{call.shown}`")
        for run in _without_tail(call, x, dim, kept):
            yield "missing_tail", sentence, run
            sentence += ", and divides by their number"


def _without_tail(call: OperatorCall, x: Tensor, dim: int, kept: int) -> list[Callable[[], Any]]:
    first = x.narrow(dim, 0, kept)
    narrowed = functools.partial(call.having, {0: first})
    if call.name == "mean":
        return [lambda: narrowed() * (kept / x.shape[dim]), narrowed]
    if call.name in {"_softmax", "_log_softmax"}:
        apart = torch.exp if call.name == "_softmax" else torch.clone
        return [lambda: apart(x - first.logsumexp(dim, keepdim=True))]
    return [narrowed]


def _kinds(call: OperatorCall, x: Tensor, dims: list[int]) -> Iterator[Slip]:
    """Yield another reduction or function in its place."""
    code, does, own = "other_reduction", "takes", WORDS.get(call.name, f"`{call.name}`")
    if call.name in SAME_SHAPE:
        code, does, own = "other_function", "computes", f"`{call.shown}`"
    fits = x.is_floating_point() if call.name in WORDS else len(dims) == 1 or not call.name.startswith("arg")
    for other, form in OTHERS.get(call.name, {}).items() if fits else ():
        yield code, f"{does} {other} where the reference {does} {own}", functools.partial(form, x, dims, _keeps(call))
    count = math.prod(x.shape[dim] for dim in dims)
    if call.name == "mean" and count > 1:
        sentence = f"divides a mean of {count} values by {count - 1}"
        yield "other_reduction", sentence, lambda: call.having({}) * (count / (count - 1))


def _losses(call: OperatorCall) -> Iterator[Slip]:
    if call.name in LOSSES:
        for name in LOSSES:
            if name != call.name:
                sentence = f"computes `{name}` where the reference computes `{call.name}`"
                loss = functools.partial(getattr(functional, name), reduction=NAMES[call.argument(2, 1)])
                yield "other_function", sentence, functools.partial(loss, *call.args[:2])
    for place, described in enumerate(call.func._schema.arguments[: len(call.args) + 1]):  # noqa: SLF001 - its only one
        own = call.argument(place, described.default_value)
        if described.name == "reduction" and own in {1, 2}:
            sentence = f"takes the {NAMES[3 - own]} of a loss where the reference takes the {NAMES[own]}"
            args = [*call.args[:place], 3 - own, *call.args[place + 1 :]]
            yield "other_reduction", sentence, functools.partial(call.func, *args, **call.kwargs)
