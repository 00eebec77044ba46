"""The reference with one operation changed: another epsilon or variance, or a number or mask left out."""

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from kbench.numerics.operators import OperatorMode

SMALL_NUMBER = 1e-2
"""A constant up to this size that is added, or that bounds values from below, counts as an epsilon."""
EPSILONS = (0.0, 1e-12, 1e-10, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
"""Values that are tried: every one was seen in published kernels."""
NORMS = {"native_layer_norm": 2, "native_group_norm": 1, "native_batch_norm": 1}
"""Operators that compute mean and variance, with the position of their weight; the bias is next to it."""
TRIANGLES, FILLS = {"tril", "triu", "tril_", "triu_"}, {"masked_fill", "masked_fill_"}
FAR_BELOW = -1e4
"""A constant up to this value that is filled in counts as a mask: the softmax of it is 0."""
ADDS, PRODUCTS, BOUNDS = {"add", "add_", "sub", "sub_"}, {"mul", "mul_", "div", "div_"}, {"clamp_min", "clamp_min_"}
ATTENTION = torch.nn.functional.scaled_dot_product_attention


class _AttentionApart(TorchFunctionMode):
    def __torch_function__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        if func is ATTENTION and not given.get("dropout_p") and not given.get("enable_gqa") and len(args) <= 4:
            return by_products(*args, **{n: v for n, v in given.items() if n not in {"dropout_p", "enable_gqa"}})
        return func(*args, **given)


@contextlib.contextmanager
def taken_apart() -> Iterator[None]:
    """Compute attention by two products and a softmax, so that what happens between them can be changed."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with _AttentionApart():
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


def by_products(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    *,
    is_causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """Return softmax(query · keyᵀ · scale + mask) · value: (..., L, E), (..., S, E) and (..., S, V) to (..., L, V)."""
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = query @ key.transpose(-2, -1) * factor
    if is_causal:
        attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        scores = scores.masked_fill(~attn_mask, -math.inf)
    elif attn_mask is not None:
        scores = scores + attn_mask
    return torch.softmax(scores, dim=-1) @ value


class Rewriting(OperatorMode):
    """Runs operators with a change, if any, and notes what could be changed.

    An `epsilon` takes the place of others; one that is `outside` is added to the root of a norm's variance. With
    `other_variance` variances divide by n - 1 in place of n, and the reverse. One of `numbers` may be left out.
    """

    def __init__(
        self,
        *,
        epsilon: float | None = None,
        outside: float | None = None,
        other_variance: bool = False,
        without_mask: bool = False,
        without: tuple[str, float] | None = None,
    ):
        super().__init__()
        self._new_epsilon, self._outside, self._other_variance = epsilon, outside, other_variance
        self._without_mask, self._without = without_mask, without
        self.epsilons: set[float] = set()
        self.has_variance = False
        self.has_mask = False
        self.numbers: dict[tuple[str, float], None] = {}
        """Numbers that are added or multiplied by, as (`bias` or `scale`, number), in order."""

    def __torch_dispatch__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, args, kwargs = func.overloadpacket.__name__, list(args), dict(kwargs or {})
        if name in NORMS and (name != "native_batch_norm" or args[5]):
            return self._norm(func, args, kwargs)
        if name in {"var", "std", "var_mean"} and func._overloadname == "correction":  # noqa: SLF001 - its only name
            self.has_variance = True
            if self._other_variance:
                kwargs["correction"] = 0 if kwargs.get("correction", 1) else 1
        elif name in TRIANGLES or (name in FILLS and float(args[2]) <= FAR_BELOW):
            self.has_mask = True
            if self._without_mask:
                return args[0]
        else:
            self._numbers(func, args)
        return func(*args, **kwargs)

    def _epsilon(self, own: float) -> float:
        """Note an epsilon; return the one to be used in its place."""
        self.epsilons.add(own)
        return own if self._new_epsilon is None else self._new_epsilon

    def _numbers(self, func: Any, args: list[Any]) -> None:
        """Note epsilons, summands and factors among the arguments of an operator, and change one."""
        name, second = func.overloadpacket.__name__, args[1] if len(args) > 1 else None
        if isinstance(second, int | float) and second not in {0, 1}:
            if name in ADDS | BOUNDS and 0 < second <= SMALL_NUMBER:
                args[1] = self._epsilon(float(second))
            elif name in ADDS | PRODUCTS:
                number = ("bias" if name in ADDS else "scale", float(second))
                self.numbers.setdefault(number)
                if self._without == number:
                    args[1] = 0 if name in ADDS else 1
        for place, described in enumerate(func._schema.arguments):  # noqa: SLF001 - where an `eps` is says only this
            if described.name in {"eps", "epsilon"} and place < len(args) and isinstance(args[place], float):
                args[place] = self._epsilon(args[place])

    def _norm(self, func: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Run a norm with its epsilon changed, or by a form with another variance or deviation."""
        own: float = args[-1]
        self.has_variance = True
        args[-1] = self._epsilon(own)

        def other(x: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
            if self._outside is not None:
                return (x - mean) / (variance.sqrt() + self._outside)
            count = x.numel() // max(1, mean.numel())
            return (x - mean) / (variance * (count / (count - 1) if count > 1 else math.nan) + own).sqrt()

        changes = self._other_variance or self._outside is not None
        return normed(func.overloadpacket.__name__, args, other) if changes else func(*args, **kwargs)


Form = Callable[[Tensor, Tensor, Tensor], Tensor]
"""What is made of values, their means and their variances, before weight and bias."""


def normed(name: str, args: Sequence[Any], form: Form, over: Sequence[int] = ()) -> tuple[Tensor, None, None]:
    """Return what a norm returns if it has a form, and if its statistics are `over` other dimensions."""
    x: Tensor = args[0]
    grouped = name == "native_group_norm"
    rows = x.reshape(args[3], args[6], -1) if grouped else x
    dims = [2] if grouped else list(over or dimensions(name, args))
    variance, mean = torch.var_mean(rows, dims, correction=0, keepdim=True)
    weight, bias = affine(name, args)
    values = form(rows, mean, variance).reshape(x.shape)
    values = values if weight is None else values * weight
    return values if bias is None else values + bias, None, None


def dimensions(name: str, args: Sequence[Any]) -> list[int]:
    """Return the dimensions that a norm of layers or batches has its statistics over."""
    every = list(range(args[0].dim()))
    return every[-len(args[1]) :] if name == "native_layer_norm" else [0, *every[2:]]


def affine(name: str, args: Sequence[Any]) -> tuple[Tensor | None, Tensor | None]:
    """Return a norm's weight and bias, if any, in the shape in which they are applied."""
    x, at = args[0], NORMS[name]
    shape = args[1] if name == "native_layer_norm" else [1, x.shape[1], *[1] * (x.dim() - 2)]
    weight, bias = (None if each is None else each.reshape(shape) for each in args[at : at + 2])
    return weight, bias
