"""The reference in a coarser arithmetic: values rounded to TF32, fp16 or bf16 where a solution may round them.

Rounding is emulated in fp32, so no switch of torch is touched, and a CPU gives what a GPU gives.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from kbench.numerics.operators import OperatorMode

Rounder = Callable[[Tensor], Tensor]

PRODUCTS = frozenset(
    (
        *("mm", "addmm", "bmm", "baddbmm", "mv", "addmv", "dot", "addr", "linear", "convolution", "_convolution"),
        *("mkldnn_linear", "mkldnn_convolution", "cudnn_convolution", "_trilinear"),
    )
)
"""Operators that tensor cores compute, by name."""
SUMMANDS = {"addmm": 0, "baddbmm": 0, "addmv": 0, "addr": 0, "convolution": 2, "_convolution": 2, "linear": 2}
"""By operator, the position of the argument that is added to a product."""
TF32_LOW = 13
"""Bits of an fp32 mantissa that TF32 lacks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arithmetic:
    """One way in which a solution may lose precision; each place has its rounding, or keeps fp32."""

    code: str
    words: str
    operands: Rounder | None = None
    """Of factors of products."""
    products: Rounder | None = None
    """Of results of products."""
    others: Rounder | None = None
    """Of what every other operator reads and returns."""
    given: Rounder | None = None
    """Of inputs, parameters and buffers."""
    result: Rounder | None = None
    """Of what is returned."""


def _through(name: str) -> Rounder:
    def rounded(tensor: Tensor) -> Tensor:
        return tensor.to(getattr(torch, name)).to(tensor.dtype)

    return rounded


def to_tf32(tensor: Tensor) -> Tensor:
    """Round fp32 to the nearest TF32 value."""
    return _tf32(tensor, half=1 << (TF32_LOW - 1))


def cut_to_tf32(tensor: Tensor) -> Tensor:
    """Cut fp32 off to TF32, as tensor cores do with bits that they are not made for."""
    return _tf32(tensor, half=0)


def _tf32(tensor: Tensor, half: int) -> Tensor:
    if tensor.dtype != torch.float32:
        return tensor
    bits = tensor.contiguous().view(torch.int32)
    kept = torch.bitwise_and(bits + half, -(1 << TF32_LOW)).view(torch.float32)
    return torch.where(tensor.isfinite(), kept, tensor)


def arithmetics() -> tuple[Arithmetic, ...]:
    """Return what is tried, the simpler first: where two fit alike, the first one counts."""
    found = [
        Arithmetic(code="tf32", words="the factors of products rounded to 11 bits (TF32)", operands=to_tf32),
        Arithmetic(code="tf32", words="the factors of products cut off to 11 bits (TF32)", operands=cut_to_tf32),
    ]
    for code, name in (("fp16", "float16"), ("bf16", "bfloat16")):
        to = _through(name)
        found += [
            Arithmetic(code=code, words=f"the result in {code}", result=to),
            Arithmetic(code=code, words=f"inputs and weights in {code}", given=to),
            Arithmetic(code=code, words=f"inputs, weights and the result in {code}", given=to, result=to),
            Arithmetic(code=code, words=f"the factors of products in {code}", operands=to),
            Arithmetic(code=code, words=f"the factors of products and the result in {code}", operands=to, result=to),
            Arithmetic(code=code, words=f"products in {code}, as autocast has them", operands=to, products=to),
            Arithmetic(
                code=code, words=f"every value in {code}", operands=to, products=to, others=to, given=to, result=to
            ),
        ]
    return tuple(found)


class RoundingMode(OperatorMode):
    """Rounds at every operator as an arithmetic says."""

    def __init__(self, arithmetic: Arithmetic):
        super().__init__()
        self._arithmetic = arithmetic

    def __torch_dispatch__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        is_product = name in PRODUCTS
        before = self._arithmetic.operands if is_product else self._arithmetic.others
        kept = () if self._arithmetic.products is not None else (SUMMANDS.get(name),)
        after = self._arithmetic.products if is_product else self._arithmetic.others
        aliases = [returned.alias_info for returned in func._schema.returns]  # noqa: SLF001 - its only description
        if any(alias is not None for alias in aliases):
            found = func(*args, **(kwargs or {}))  # a view, or in place: other tensors would break the alias
            if after is not None and aliases[0] is not None and aliases[0].is_write:
                found.copy_(rounded_by(after, found))
            return found
        given = [arg if place in kept else rounded_by(before, arg) for place, arg in enumerate(args)]
        return rounded_by(after, func(*given, **rounded_by(before, kwargs or {})))


def rounded_by(change: Rounder | None, value: Any) -> Any:
    """Return a value with every fp32 tensor in it rounded, if at all."""
    if change is None:
        return value

    def on_leaf(leaf: Any) -> Any:
        return change(leaf) if isinstance(leaf, Tensor) and leaf.dtype == torch.float32 else leaf

    return tree_map(on_leaf, value)
