"""Norms: over other dimensions, or with other groups."""

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from kbench.judge.diagnosis.rewrites import NORMS, affine, scaled, spread
from kbench.judge.diagnosis.slips.call import OperatorCall, Slip

MOST_GROUPS = 8
"""Chosen: most other numbers of groups that are tried, beginning at the smallest."""


def slips(call: OperatorCall) -> Iterator[Slip]:
    """Yield a norm with the statistics of other values, or with a part left out."""
    x = call.tensor(0)
    if call.name not in NORMS or x is None or (call.name == "native_batch_norm" and not call.args[5]):
        return
    every = range(x.dim())
    yield from _parts(call, x)
    if call.name == "native_layer_norm":
        own = list(every[x.dim() - len(call.args[1]) :])
        others = [own[n:] for n in range(1, len(own))] + [list(every)] * (len(own) < x.dim())
        others += [[1]] * (own != [1] and x.dim() > 2)
        yield from (_over(call, x, own, other) for other in others)
    elif call.name == "native_batch_norm":
        yield _over(call, x, [0, *every[2:]], list(every[2:]) or [1])
    else:
        channels, groups = call.args[4], call.args[6]
        counts = [n for n in range(1, channels + 1) if channels % n == 0 and n != groups]
        for count in sorted({*counts[:MOST_GROUPS], *counts[-1:]}):
            sentence = f"normalises in {count} group{'s' * (count > 1)}, where the reference has {groups}"
            yield "other_dimension", sentence, functools.partial(call.having, {6: count})


def _parts(call: OperatorCall, x: Tensor) -> Iterator[Slip]:
    at = NORMS[call.name]

    def plain() -> tuple[Tensor, Tensor, Tensor]:
        """Return normalised values, means and inverse deviations."""
        found, *statistics = call.having({at: None, at + 1: None})
        mean, inverse = (spread(call.name, call.args, each) for each in statistics)
        return found, mean, inverse

    def without_mean() -> Any:
        _, mean, inverse = plain()
        return scaled(call.name, call.args, x * torch.rsqrt(inverse**-2 + mean.square())), None, None

    def without_root() -> Any:
        found, _, inverse = plain()
        return scaled(call.name, call.args, found * inverse), None, None

    yield "missing_function", f"leaves the mean out in `{call.shown}`", without_mean
    yield "missing_function", f"divides by the variance and not by its root in `{call.shown}`", without_root
    weight, bias = affine(call.name, call.args)
    if weight is not None and bias is not None:
        sentence = "adds the bias before it multiplies by the weight, where the reference does so afterwards"
        yield "other_order", sentence, lambda: ((plain()[0] + bias) * weight, None, None)


def _over(call: OperatorCall, x: Tensor, own: Sequence[int], other: Sequence[int]) -> Slip:
    def normed() -> tuple[Tensor, Tensor, Tensor]:
        variance, mean = torch.var_mean(x, dim=list(other), correction=0, keepdim=True)
        values = (x - mean) * torch.rsqrt(variance + call.args[-1])
        return scaled(call.name, call.args, values), mean, variance

    shown = [", ".join(map(str, dims)) for dims in (other, own)]
    sentence = f"normalises over dimensions {shown[0]}, where the reference does so over dimensions {shown[1]}"
    return "other_dimension", sentence, normed
