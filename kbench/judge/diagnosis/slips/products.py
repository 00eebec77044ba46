"""Matrix products: without a tail of the dimension that is summed over."""

import functools
from collections.abc import Iterator

from torch import Tensor

from kbench.judge.diagnosis.slips.call import OperatorCall, Slip, left_out, shorter

FACTORS = {
    "mm": (0, 1),
    "bmm": (0, 1),
    "mv": (0, 1),
    "dot": (0, 1),
    "addmm": (1, 2),
    "baddbmm": (1, 2),
    "addmv": (1, 2),
}
"""By operator, the positions of its factors: the last dimension of the first is summed over."""


def slips(call: OperatorCall) -> Iterator[Slip]:
    """Yield a product without its last terms, or without its first."""
    if call.name == "linear":
        yield from _linear(call)
    if call.name not in FACTORS:
        return
    first, second = FACTORS[call.name]
    a, b = call.args[first], call.args[second]
    length = a.shape[-1]
    across = -1 if b.dim() == 1 else -2
    for kept in shorter(length):
        changes = {first: a.narrow(-1, 0, kept), second: b.narrow(across, 0, kept)}
        yield _slip(call, left_out(kept, length, "a product"), changes)
    if length > 1:
        changes = {first: a.narrow(-1, 1, length - 1), second: b.narrow(across, 1, length - 1)}
        yield _slip(call, f"leaves out the first of {length} terms of a product", changes)


def _linear(call: OperatorCall) -> Iterator[Slip]:
    x, weight = call.args[:2]
    length = weight.shape[-1]
    for kept in shorter(length):
        changes = {0: x.narrow(-1, 0, kept), 1: weight.narrow(-1, 0, kept)}
        yield _slip(call, left_out(kept, length, "a product"), changes)


def _slip(call: OperatorCall, sentence: str, changes: dict[int, Tensor]) -> Slip:
    return Slip(code="missing_tail", sentence=sentence, run=functools.partial(call.having, changes))
