"""The reference in a coarser arithmetic, emulated in fp32: a CPU gives what a GPU does, no switch is touched."""

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from kbench.numerics.operators import OperatorMode

Rounder = Callable[[Tensor], Tensor]

PRODUCTS = {
    *("mm", "addmm", "bmm", "baddbmm", "mv", "addmv", "dot", "addr", "linear", "convolution", "_convolution"),
    *("mkldnn_linear", "mkldnn_convolution", "cudnn_convolution", "_trilinear"),
}
"""Operators that tensor cores compute, by name."""
SUMMANDS = {"addmm": 0, "baddbmm": 0, "addmv": 0, "addr": 0, "convolution": 2, "_convolution": 2, "linear": 2}
"""By operator, the position of the argument that is added to a product."""
TF32_LOW = 13
"""Bits of an fp32 mantissa that TF32 lacks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arithmetic:
    """One way in which a solution may lose precision: how it rounds, and at which places; others keep fp32.

    Places: the factors of products (`operands`) and their results (`products`), what all `others` read and return,
    inputs, parameters and buffers (`given`), and the `result` of the model.
    """

    code: str
    words: str
    rounder: Rounder
    places: tuple[str, ...]

    def at(self, place: str, value: Any) -> Any:
        """Return a value with every fp32 tensor in it rounded, if this is a place for it."""

        def on_leaf(leaf: Any) -> Any:
            return self.rounder(leaf) if isinstance(leaf, Tensor) and leaf.dtype == torch.float32 else leaf

        return tree_map(on_leaf, value) if place in self.places else value


COARSER: dict[str, tuple[str, ...]] = {
    "the result in {}": ("result",),
    "inputs and weights in {}": ("given",),
    "inputs, weights and the result in {}": ("given", "result"),
    "the factors of products in {}": ("operands",),
    "the factors of products and the result in {}": ("operands", "result"),
    "products in {}, as autocast has them": ("operands", "products"),
    "every value in {}": ("operands", "products", "others", "given", "result"),
}
"""Ways to use a type of 16 bits, and the places of an Arithmetic that do."""


def _to_16_bits(dtype: torch.dtype, tensor: Tensor) -> Tensor:
    return tensor.to(dtype).to(tensor.dtype)


def to_tf32(tensor: Tensor, half: int = 1 << (TF32_LOW - 1)) -> Tensor:
    """Round fp32 to the nearest TF32 value; with 0 for half a unit, cut it off."""
    if tensor.dtype != torch.float32:
        return tensor
    bits = tensor.contiguous().view(torch.int32)
    kept = torch.bitwise_and(bits + half, -(1 << TF32_LOW)).view(torch.float32)
    return torch.where(tensor.isfinite(), kept, tensor)


cut_to_tf32 = functools.partial(to_tf32, half=0)
"""As tensor cores do with bits that they are not made for."""


def arithmetics() -> Iterator[Arithmetic]:
    """Yield what is tried, the simpler first: where two fit alike, the first one counts."""
    for does, rounder in (("rounded", to_tf32), ("cut off", cut_to_tf32)):
        words = f"the factors of products {does} to 11 bits (TF32)"
        yield Arithmetic(code="tf32", words=words, rounder=rounder, places=("operands",))
    for code, dtype in (("fp16", torch.float16), ("bf16", torch.bfloat16)):
        to = functools.partial(_to_16_bits, dtype)
        for words, places in COARSER.items():
            yield Arithmetic(code=code, words=words.format(code), rounder=to, places=places)


class RoundingMode(OperatorMode):
    """Rounds at every operator as an arithmetic says."""

    def __init__(self, arithmetic: Arithmetic):
        super().__init__()
        self._arithmetic = arithmetic

    def __torch_dispatch__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, at, places = func.overloadpacket.__name__, self._arithmetic.at, self._arithmetic.places
        before, after = ("operands", "products") if name in PRODUCTS else ("others", "others")
        kept = () if "products" in places else (SUMMANDS.get(name),)
        aliases = [returned.alias_info for returned in func._schema.returns]  # noqa: SLF001 - its only description
        if any(alias is not None for alias in aliases):
            found = func(*args, **(kwargs or {}))  # a view, or in place: other tensors would break the alias
            if after in places and aliases[0] is not None and aliases[0].is_write:
                found.copy_(at(after, found))
            return found
        given = [arg if place in kept else at(before, arg) for place, arg in enumerate(args)]
        return at(after, func(*given, **at(before, kwargs or {})))
