"""The arithmetic of a call: its floating-point operations, as torch's own formulas count them, and their precision."""

import logging
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor

from kbench.numerics.operators import OperatorMode

Result = TypeVar("Result")
PRECISIONS = {
    **dict.fromkeys((torch.float64, torch.complex128), "fp64"),
    **dict.fromkeys((torch.float32, torch.complex64), "fp32"),
    torch.float16: "fp16",
    torch.bfloat16: "bf16",
}
"""Names of precisions in `kbench.core.roofline`; other types have the name of their dtype."""


def _formulas() -> dict[Any, Callable[..., int]]:
    """Import torch's formulas by operator without triton, which takes 0.14 s and whose kernels no reference has."""
    logging.getLogger("torch.utils.flop_counter").setLevel(logging.ERROR)  # it warns that triton is missing
    absent = sys.modules.setdefault("triton", None) is None  # type: ignore[arg-type]
    try:
        from torch.utils.flop_counter import flop_registry
    finally:
        if absent:
            del sys.modules["triton"]
    return flop_registry


FORMULAS = _formulas()


def count(call: Callable[[], Result]) -> tuple[Result, dict[str, int], set[torch.dtype]]:
    """Run a call; return its result, its FLOPs by the precision of the factors, and the types that it computed.

    `FlopCounterMode` of torch is not used: it imports torch.compile for its first operator, which takes seconds.
    """
    flops: Counter[str] = Counter()
    types: set[torch.dtype] = set()

    def compute(func: Any, args: Any, given: dict[str, Any]) -> Any:
        formula = FORMULAS.get(func._overloadpacket)  # noqa: SLF001 - the key that the registry uses
        if formula is None:
            with mode:  # under inference_mode, operators that consist of others arrive whole
                out = func.decompose(*args, **given)
            if out is not NotImplemented:
                return out
        out = func(*args, **given)
        if formula is not None:
            dtype = next((a.dtype for a in (*args, *given.values()) if isinstance(a, Tensor)), torch.float32)
            flops[PRECISIONS.get(dtype, str(dtype).removeprefix("torch."))] += formula(*args, **given, out_val=out)
        types.update(t.dtype for t in (out if isinstance(out, tuple | list) else [out]) if isinstance(t, Tensor))
        return out

    with OperatorMode(compute) as mode:
        return call(), dict(flops), types
