"""Attention taken apart into its two products and a softmax, so that what happens between them can be changed."""

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

FUSED = torch.nn.functional.scaled_dot_product_attention


class _Apart(TorchFunctionMode):
    def __torch_function__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        if func is FUSED and not given.get("dropout_p") and not given.get("enable_gqa") and len(args) <= 4:
            return by_products(*args, **{n: v for n, v in given.items() if n not in {"dropout_p", "enable_gqa"}})
        return func(*args, **given)


@contextlib.contextmanager
def taken_apart() -> Iterator[None]:
    """Compute `scaled_dot_product_attention` by products; modules of torch take no shorter way."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with _Apart():
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
