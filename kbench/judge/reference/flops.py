"""The arithmetic of a call: its floating-point operations, as torch's own formulas count them."""

from collections.abc import Callable
from typing import Any, TypeVar

from torch.utils.flop_counter import flop_registry

from kbench.numerics.operators import OperatorMode

Result = TypeVar("Result")


def count(call: Callable[[], Result]) -> tuple[Result, int]:
    """Run a call; return what it returned and the FLOPs of the matrix products and convolutions in it.

    The formulas are those of `torch.utils.flop_counter`. Its `FlopCounterMode` is not used, since that imports all of
    torch.compile for its first operator, which takes every judge seconds.
    """
    with _Counter() as counter:
        return call(), counter.flops


class _Counter(OperatorMode):
    flops = 0

    def __torch_dispatch__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        formula = flop_registry.get(func._overloadpacket)  # noqa: SLF001 - the key that the registry uses
        if formula is None:
            with self:  # under inference_mode, operators that consist of others arrive whole
                out = func.decompose(*args, **given)
            return func(*args, **given) if out is NotImplemented else out
        out = func(*args, **given)
        self.flops += formula(*args, **given, out_val=out)
        return out
