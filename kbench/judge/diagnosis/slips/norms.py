"""Norms: over other dimensions, with other groups, or with a part left out."""

import functools
from collections.abc import Iterator

import torch
from torch import Tensor

from kbench.judge.diagnosis.rewrites import NORMS, affine, dimensions, normed
from kbench.judge.diagnosis.slips.call import OperatorCall, Slip

MOST_GROUPS = 8
"""Chosen: most other numbers of groups that are tried, beginning at the smallest."""


def slips(call: OperatorCall) -> Iterator[Slip]:
    """Yield a norm with a part left out, or with the statistics of other values."""
    x = call.tensor(0)
    if call.name not in NORMS or x is None or (call.name == "native_batch_norm" and not call.args[5]):
        return
    epsilon: float = call.args[-1]
    run = functools.partial(normed, call.name, call.args)

    def without_mean(x: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        return x * torch.rsqrt(variance + epsilon + mean.square())

    def without_root(x: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        return (x - mean) / (variance + epsilon)

    def usual(x: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        return (x - mean) * torch.rsqrt(variance + epsilon)

    yield "missing_function", f"leaves the mean out in `{call.shown}`", functools.partial(run, without_mean)
    sentence = f"divides by the variance and not by its root in `{call.shown}`"
    yield "missing_function", sentence, functools.partial(run, without_root)
    yield from _bias_first(call)
    if call.name == "native_group_norm":
        yield from _other_groups(call)
        return
    every, own = list(range(x.dim())), dimensions(call.name, call.args)
    others = [every[2:] or [1]]
    if call.name == "native_layer_norm":
        others = [own[n:] for n in range(1, len(own))] + [every] * (len(own) < x.dim())
        others += [[1]] * (own != [1] and x.dim() > 2)
    for other in others:
        shown = [", ".join(map(str, dims)) for dims in (other, own)]
        sentence = f"normalises over dimensions {shown[0]}, where the reference does so over dimensions {shown[1]}"
        yield "other_dimension", sentence, functools.partial(run, usual, other)


def _bias_first(call: OperatorCall) -> Iterator[Slip]:
    at = NORMS[call.name]
    weight, bias = affine(call.name, call.args)
    if weight is not None and bias is not None:
        sentence = "adds the bias before it multiplies by the weight, where the reference does so afterwards"
        plain = functools.partial(call.having, {at: None, at + 1: None})
        yield "other_order", sentence, lambda: ((plain()[0] + bias) * weight, None, None)


def _other_groups(call: OperatorCall) -> Iterator[Slip]:
    channels, groups = call.args[4], call.args[6]
    counts = [n for n in range(1, channels + 1) if channels % n == 0 and n != groups]
    for count in sorted({*counts[:MOST_GROUPS], *counts[-1:]}):
        sentence = f"normalises in {count} group{'s' * (count > 1)}, where the reference has {groups}"
        yield "other_dimension", sentence, functools.partial(call.having, {6: count})
