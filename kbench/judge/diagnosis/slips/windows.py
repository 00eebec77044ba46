"""Convolutions and pools: padding, stride, dilation, groups or the order of the kernel ignored or taken otherwise."""

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from kbench.judge.diagnosis.slips.call import OperatorCall, Slip, left_out, shorter

MODES = ("reflect", "replicate", "circular")
MAX_POOLS = {f"max_pool{n}d_with_indices": getattr(functional, f"max_pool{n}d") for n in (2, 3)}
AVG_POOLS = {f"avg_pool{n}d" for n in (2, 3)}
AVG_DEFAULTS: list[Any] = [[], [0], False, True, None]
"""Stride, padding, whether sizes are rounded up, whether padding counts, and the divisor."""


def slips(call: OperatorCall) -> Iterator[Slip]:
    """Yield what may be done in place of a convolution or a pool."""
    for names, forms in (({"convolution"}, _convolution), (AVG_POOLS, _averaging), (MAX_POOLS, _largest)):
        for sentence, run in forms(call) if call.name in names else ():
            yield "other_window", sentence, run
    if call.name == "convolution":
        yield from _without_tail(call)


Windows = Iterator[tuple[str, Callable[[], Any]]]


def _convolution(call: OperatorCall) -> Windows:
    x, weight, _, stride, padding, dilation, transposed, _, groups = call.args
    space = list(range(2, x.dim()))
    yield "takes the kernel in the reverse order", lambda: call.having({1: weight.flip(space)})
    if transposed:
        if any(padding):
            yield "ignores the padding", lambda: _cut(call, {4: [0] * len(space)})
        return
    if any(n > 1 for n in dilation):
        yield "ignores the dilation", lambda: _cut(call, {4: _narrower(weight, padding, dilation), 5: [1] * len(space)})
    if any(n > 1 for n in stride):
        yield "ignores the stride", lambda: _cut(call, {3: [1] * len(space)})
    if groups > 1:
        sentence = "ignores the groups: all of them read the channels of the first"
        yield sentence, lambda: call.having({0: x[:, : x.shape[1] // groups], 8: 1})
    if any(padding):

        def padded(times: tuple[int, int], mode: str = "constant") -> Any:
            return call.having({0: _padded(x, padding, times, mode), 4: [0] * len(padding)})

        yield "pads behind the last values only", functools.partial(padded, (0, 2))
        yield "pads before the first values only", functools.partial(padded, (2, 0))
        for mode in MODES:
            yield f"pads by `{mode}` in place of zeros", functools.partial(padded, (1, 1), mode)


def _without_tail(call: OperatorCall) -> Iterator[Slip]:
    """Yield it without the last of the terms that are summed up, or the last column of the kernel."""
    weight, transposed = call.args[1], call.args[6]
    terms = weight[0].numel()

    def with_first(kept: int) -> Any:
        first = torch.arange(terms, device=weight.device) < kept
        return call.having({1: weight * first.view(weight[0].shape)})

    def without_last(dim: int) -> Any:
        shorn = weight.clone()
        shorn.select(dim, -1).zero_()
        return call.having({1: shorn})

    if not transposed:
        taps = terms // weight.shape[1]
        for kept in sorted({*shorter(terms), *(taps * n for n in shorter(weight.shape[1]))}, reverse=True):
            yield "missing_tail", left_out(kept, terms, "a convolution"), functools.partial(with_first, kept)
    for dim in range(2, weight.dim()):
        if weight.shape[dim] > 1:
            sentence = f"leaves out the last of {weight.shape[dim]} entries of the kernel's dimension {dim}"
            yield "missing_tail", sentence, functools.partial(without_last, dim)


def _averaging(call: OperatorCall) -> Windows:
    x, size, *rest = call.args
    stride, padding, ceil, counts, divisor = [*rest, *AVG_DEFAULTS[len(rest) :]]
    pool = getattr(torch.ops.aten, call.name)
    known = (x, size, stride or size, padding, ceil)
    if divisor is None:
        if any(padding):
            words = "leaves out" if counts else "counts"
            yield f"{words} the padding when it divides by the number of values", lambda: pool(*known, not counts, None)
        yield "takes the sum of a window where the reference takes the mean", lambda: pool(*known, counts, 1)
    largest = getattr(functional, call.name.replace("avg", "max"))
    yield "takes the largest value of a window where the reference takes the mean", lambda: largest(*known[:4])


def _largest(call: OperatorCall) -> Windows:
    x, size, *rest = call.args
    stride, padding = [*rest, *AVG_DEFAULTS[len(rest) :]][:2]
    dims = len(size)
    average = getattr(functional, f"avg_pool{dims}d")
    known = (size, stride or size)
    sentence = "takes the mean of a window where the reference takes the largest value"
    yield sentence, lambda: (average(x, *known, padding), None)
    if any(padding):
        every = list(padding) * (dims // len(padding))
        pool = MAX_POOLS[call.name]
        yield "pads with zeros, which count as values", lambda: (pool(_padded(x, every, (1, 1)), *known), None)


def _padded(x: Tensor, padding: Sequence[int], times: tuple[int, int], mode: str = "constant") -> Tensor:
    """Pad each spatial dimension: `times[0]` times its padding before it, `times[1]` times behind it."""
    sides = [times[side] * n for n in reversed(padding) for side in (0, 1)]
    return functional.pad(x, sides, mode=mode)


def _narrower(weight: Tensor, padding: Sequence[int], dilation: Sequence[int]) -> list[int]:
    """Return the padding that leaves the size of the result where the dilation is ignored, as far as there is one."""
    wider = [(d - 1) * (k - 1) // 2 for d, k in zip(dilation, weight.shape[2:], strict=True)]
    return [max(p - w, 0) for p, w in zip(padding, wider, strict=True)]


def _cut(call: OperatorCall, changes: dict[int, Any]) -> Tensor:
    """Return the first entries of a result that is too large, in the shape of the right one."""
    found: Tensor = call.having(changes)
    for dim, size in enumerate(call.having({}).shape):
        found = found.narrow(dim, 0, size)
    return found
