"""Two operators in a row the other way round, and one operand of two left out."""

import functools
from collections.abc import Iterator

import torch
from torch import Tensor

from kbench.judge.diagnosis.slips import functions
from kbench.judge.diagnosis.slips.call import OperatorCall, Slip

WITH_BIAS = {"addmm": 0, "convolution": 2, "linear": 2, "baddbmm": 0}
"""By operator, the position of what it adds to a product."""
POINTWISE = {"add", "sub", "mul", "div", *functions.BOUNDS, *(name for family in functions.FAMILIES for name in family)}
VIEWS = {"view", "_unsafe_view", "unsqueeze", "squeeze"}
BINARY = {"add": "sums", "mul": "multiplies"}


def slips(call: OperatorCall) -> Iterator[Slip]:
    """Yield an operator before the one that it comes after, and sums and products without one of two like operands."""
    yield from _operands(call)
    yield from _diagonals(call)
    first = call.before
    x = call.tensor(0)
    if call.name not in POINTWISE or first is None or x is None:
        return
    bias = _bias(first)
    if bias is not None and call.name not in {"add", "sub"}:
        sentence = f"computes `{call.shown}` before it adds the bias, where the reference does so afterwards"
        yield "other_order", sentence, functools.partial(_bias_last, call, bias, x)
    inner = first.tensor(0)
    linear = {"add", "sub"}, {"mul", "div"}
    if first.name in POINTWISE and inner is not None and not any({first.name, call.name} <= kind for kind in linear):
        sentence = f"computes `{call.shown}` before `{first.shown}`, where the reference does so afterwards"
        yield "other_order", sentence, lambda: first.having({0: call.having({0: inner.clone()})})


def _operands(call: OperatorCall) -> Iterator[Slip]:
    a, b = call.tensor(0), call.tensor(1)
    if call.name in BINARY and a is not None and b is not None and bool(a.dim()) == bool(b.dim()) and a is not b:
        for number, kept, other in ((2, a, b), (1, b, a)):
            if _has_shape_of_both(kept, other):
                sentence = f"leaves out operand {number} of what the reference {BINARY[call.name]}"
                yield "missing_operand", sentence, kept.clone


def _has_shape_of_both(kept: Tensor, other: Tensor) -> bool:
    """Return whether what two tensors are broadcast to has the shape of the first (torch's own function is slow)."""
    pairs = zip(reversed(kept.shape), reversed(other.shape), strict=False)
    return kept.dim() >= other.dim() and all(size in {1, own} for own, size in pairs)


def _diagonals(call: OperatorCall) -> Iterator[Slip]:
    if call.name in {"tril", "triu"}:
        own = call.argument(1, 0)
        for other in (own - 1, own + 1):
            sentence = f"cuts `{call.name}` at diagonal {other}, where the reference cuts at {own}"
            yield "other_window", sentence, functools.partial(getattr(torch, call.name), call.args[0], other)


def _bias(call: OperatorCall) -> OperatorCall | None:
    """Return the product with a bias that a call is, or of which it is a view."""
    while call.name in VIEWS and call.before is not None:
        call = call.before
    place = WITH_BIAS.get(call.name)
    return call if place is not None and call.argument(place) is not None else None


def _bias_last(call: OperatorCall, product: OperatorCall, x: Tensor) -> Tensor:
    place = WITH_BIAS[product.name]
    plain: Tensor = product.having({place: torch.zeros_like(product.args[place])}).reshape(x.shape)
    found: Tensor = call.having({0: plain.clone()})
    return found + (x - plain)
