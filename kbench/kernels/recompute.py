"""Gradients for a hand-written forward: the backward recomputes with torch and differentiates that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from kbench.kernels.precision import ieee_float32

TensorFunction = Callable[..., Tensor]


class _Recomputed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, native: TensorFunction, composed: TensorFunction, *tensors: Tensor) -> Tensor:
        ctx.composed = composed
        ctx.save_for_backward(*tensors)
        return native(*tensors)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        needed = ctx.needs_input_grad[2:]
        leaves = [tensor.detach().requires_grad_(need) for tensor, need in zip(ctx.saved_tensors, needed, strict=True)]
        wanted = [leaf for leaf in leaves if leaf.requires_grad]
        with torch.enable_grad(), ieee_float32():
            gradients = iter(torch.autograd.grad(ctx.composed(*leaves), wanted, grad_output))
        return None, None, *(next(gradients) if need else None for need in needed)


def differentiable(native: TensorFunction, composed: TensorFunction, *tensors: Tensor) -> Tensor:
    """Call `native(*tensors)`, with the gradient of `composed`: the same function in torch operators.

    Costs nothing beyond the call when no gradient is wanted. First derivatives only: a second one raises.
    """
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        return _Recomputed.apply(native, composed, *tensors)
    return native(*tensors)
