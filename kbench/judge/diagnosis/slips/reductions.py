"""Products, softmax, sums and their like: over another dimension, without a tail, or one in place of another."""

import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from kbench.judge.diagnosis.slips.call import OperatorCall, Slip, left_out, shorter

SAME_SHAPE = {"_softmax", "_log_softmax", "cumsum", "cumprod"}
REDUCING = {"sum", "mean", "amax", "amin", "logsumexp", "prod", "argmax", "argmin", "max", "min", "var", "std"}
PLACES = {"linalg_vector_norm": 2}
"""Position of the dimensions where it is not 1."""
KINDS: dict[str, Callable[..., Tensor]] = {"sum": torch.sum, "mean": torch.mean, "amax": torch.amax, "amin": torch.amin}
OPPOSITES = {"argmax": torch.argmin, "argmin": torch.argmax}
WORDS = {"sum": "the sum", "mean": "the mean", "amax": "the largest value", "amin": "the smallest value"}
LOSSES = {"mse_loss": functional.mse_loss, "l1_loss": functional.l1_loss, "smooth_l1_loss": functional.smooth_l1_loss}
NAMES = ("none", "mean", "sum")
SWAPPED = {1: 2, 2: 1}
"""Reductions of losses as operators have them: 1 is the mean, 2 the sum."""
FACTORS = {
    **dict.fromkeys(("mm", "bmm", "mv", "dot", "linear"), (0, 1)),
    **dict.fromkeys(("addmm", "baddbmm", "addmv"), (1, 2)),
}
"""By operator, the positions of its factors: the last dimension of the first is summed over."""


def slips(call: OperatorCall) -> Iterator[Slip]:
    """Yield what may be done in place of a product, a reduction, a softmax or a running sum."""
    yield from _products(call)
    x = call.args[0] if call.args and isinstance(call.args[0], Tensor) else None
    if x is None:
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
    place = PLACES.get(call.name, 1)
    given = call.args[place] if place < len(call.args) else None
    dims = [given] if isinstance(given, int) else list(given or range(x.dim()))
    return [dim % max(x.dim(), 1) for dim in dims]


def _given(call: OperatorCall, dim: int) -> dict[int, Any]:
    place = PLACES.get(call.name, 1)
    return {place: dim if isinstance(call.args[place], int) else [dim]} if place < len(call.args) else {}


def _keeps(call: OperatorCall) -> bool:
    place = PLACES.get(call.name, 1) + 1
    return bool(call.kwargs.get("keepdim", call.args[place] if place < len(call.args) else False))


def _over_others(call: OperatorCall, x: Tensor, dim: int) -> Iterator[Slip]:
    """Yield the same over each other dimension, where the result has the same shape or may be broadcast."""
    for other in range(x.dim()):
        same = call.name in SAME_SHAPE or _keeps(call) or _shape(x, other) == _shape(x, dim)
        if other != dim and same and (changes := _given(call, other)):
            sentence = f"takes `{call.shown}` over dimension {other}, where the reference takes it over dimension {dim}"
            yield "other_dimension", sentence, functools.partial(call.having, changes)


def _shape(x: Tensor, dim: int) -> list[int]:
    return [size for n, size in enumerate(x.shape) if n != dim]


def _tails(call: OperatorCall, x: Tensor, dim: int) -> Iterator[Slip]:
    """Yield the same without the last terms; of a mean, also divided by the number of all."""
    length = x.shape[dim] if x.dim() else 1
    if call.name in {"cumsum", "cumprod"}:
        sentence = f"takes `{call.shown}` from the end, where the reference takes it from the beginning"
        yield "other_reduction", sentence, lambda: call.having({0: x.flip(dim)}).flip(dim)
        return
    for kept in shorter(length):
        sentence = left_out(kept, length, f"`{call.shown}`")
        for run in _without_tail(call, x, dim, kept):
            yield "missing_tail", sentence, run
            sentence += ", and divides by their number"


def _without_tail(call: OperatorCall, x: Tensor, dim: int, kept: int) -> Iterator[Callable[[], Any]]:
    def narrowed() -> Any:
        return call.having({0: x.narrow(dim, 0, kept)})

    if call.name == "mean":
        yield lambda: narrowed() * (kept / x.shape[dim])
        yield narrowed
    elif call.name in {"_softmax", "_log_softmax"}:
        logs = functools.partial(torch.logsumexp, dim=dim, keepdim=True)
        apart = torch.exp if call.name == "_softmax" else torch.clone
        yield lambda: apart(x - logs(x.narrow(dim, 0, kept)))
    else:
        yield narrowed


def _kinds(call: OperatorCall, x: Tensor, dims: list[int]) -> Iterator[Slip]:
    own = WORDS.get(call.name, f"`{call.name}`")
    for words, form in _other_reductions(call, x, dims).items():
        yield "other_reduction", f"takes {words} where the reference takes {own}", form
    for words, form in _other_softmaxes(call, x, dims).items():
        yield "other_function", f"computes {words} where the reference computes `{call.shown}`", form
    count = math.prod(x.shape[dim] for dim in dims)
    if call.name == "mean" and count > 1:
        sentence = f"divides a mean of {count} values by {count - 1}"
        yield "other_reduction", sentence, lambda: call.having({}) * (count / (count - 1))


def _other_reductions(call: OperatorCall, x: Tensor, dims: list[int]) -> dict[str, Callable[[], Tensor]]:
    keepdim = _keeps(call)
    if call.name in KINDS and x.is_floating_point():
        others = {WORDS[name]: function for name, function in KINDS.items() if name != call.name}
        return {words: functools.partial(function, x, dim=dims, keepdim=keepdim) for words, function in others.items()}
    if call.name in OPPOSITES and len(dims) == 1:
        other = OPPOSITES[call.name]
        return {f"`{other.__name__}`": functools.partial(other, x, dim=dims[0], keepdim=keepdim)}
    if call.name == "logsumexp":
        largest = functools.partial(torch.amax, x, dims, keepdim=keepdim)
        return {"the largest value": largest, "a sum of exponentials": lambda: x.exp().sum(dims, keepdim=keepdim)}
    return {}


def _other_softmaxes(call: OperatorCall, x: Tensor, dims: list[int]) -> dict[str, Callable[[], Tensor]]:
    if call.name == "_softmax":
        below = "exponentials less the largest that are not divided by their sum"
        return {
            "`log_softmax`": lambda: torch.log_softmax(x, dims[0]),
            "exponentials that are not divided by their sum": x.exp,
            below: lambda: x.sub(x.amax(dims, keepdim=True)).exp(),
            "`sigmoid`": x.sigmoid,
        }
    return {"`softmax`": lambda: torch.softmax(x, dims[0])} if call.name == "_log_softmax" else {}


def _losses(call: OperatorCall) -> Iterator[Slip]:
    if call.name in LOSSES:
        reduction = NAMES[call.args[2] if len(call.args) > 2 and isinstance(call.args[2], int) else 1]
        for name, function in LOSSES.items():
            if name != call.name:
                sentence = f"computes `{name}` where the reference computes `{call.name}`"
                run = functools.partial(function, call.args[0], call.args[1], reduction=reduction)
                yield "other_function", sentence, run
    for place, described in enumerate(call.func._schema.arguments[: len(call.args) + 1]):  # noqa: SLF001 - its only one
        own = call.args[place] if place < len(call.args) else described.default_value
        if described.name == "reduction" and own in SWAPPED:
            sentence = f"takes the {NAMES[SWAPPED[own]]} of a loss where the reference takes the {NAMES[own]}"
            args = [*call.args[:place], SWAPPED[own], *call.args[place + 1 :]]
            yield "other_reduction", sentence, functools.partial(call.func, *args, **call.kwargs)
