"""The arithmetic of a call: its floating-point operations, as torch's own formulas count them, and their precision."""

import logging
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor

from kbench.numerics.operators import OperatorMode

Result = TypeVar("Result")
TRITON = "triton"


def _formulas() -> dict[Any, Callable[..., int]]:
    """Import torch's formulas by operator, without triton, of whose kernels no reference has any: 0.14 s."""
    logging.getLogger("torch.utils.flop_counter").setLevel(logging.ERROR)  # it warns that triton is missing
    absent = sys.modules.setdefault(TRITON, None) is None  # type: ignore[arg-type]
    try:
        from torch.utils.flop_counter import flop_registry
    finally:
        if absent:
            del sys.modules[TRITON]
    return flop_registry


FORMULAS = _formulas()


def count(call: Callable[[], Result]) -> tuple[Result, int, set[torch.dtype]]:
    """Run a call; return what it returned, the FLOPs of its products and convolutions, and types of what it computed.

    The formulas are those of `torch.utils.flop_counter`. Its `FlopCounterMode` is not used, since that imports all of
    torch.compile for its first operator, which takes every judge seconds.
    """
    with _Counter() as counter:
        return call(), counter.flops, counter.types


class _Counter(OperatorMode):
    def __init__(self) -> None:
        super().__init__()
        self.flops = 0
        self.types: set[torch.dtype] = set()

    def __torch_dispatch__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        formula = FORMULAS.get(func._overloadpacket)  # noqa: SLF001 - the key that the registry uses
        if formula is None:
            with self:  # under inference_mode, operators that consist of others arrive whole
                out = func.decompose(*args, **given)
            if out is not NotImplemented:
                return out
        out = func(*args, **given)
        self.flops += formula(*args, **given, out_val=out) if formula is not None else 0
        self.types |= {t.dtype for t in (out if isinstance(out, tuple | list) else [out]) if isinstance(t, Tensor)}
        return out
