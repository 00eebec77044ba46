"""GroupNorm as an operator: argument checks and autograd around a forward kernel of ours.

A forward kernel is any callable (x, gamma, beta, groups, eps) -> (y, mean, rstd) on contiguous float32
tensors, with mean and rstd of shape (batch, groups). The backward is torch's own
`native_group_norm_backward`, fed with the statistics that the forward kernel saved: no custom backward
kernel, and nothing is computed twice.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

ForwardKernel = Callable[[Tensor, Tensor, Tensor, int, float], tuple[Tensor, Tensor, Tensor]]


def group_norm(x: Tensor, groups: int, gamma: Tensor, beta: Tensor, eps: float, kernel: ForwardKernel) -> Tensor:
    """Normalise every (sample, group) of `x` to mean 0 and variance 1, then scale and shift every channel.

    x: (batch, channels, *) float32 of any strides; gamma, beta: (channels,) float32; the result is contiguous
    and of x's shape. Raises TypeError for another dtype, ValueError for shapes or devices that do not match.
    """
    check_arguments(x, groups, gamma, beta)
    if torch.is_grad_enabled() and (x.requires_grad or gamma.requires_grad or beta.requires_grad):
        y: Tensor = _GroupNorm.apply(x, gamma, beta, groups, eps, kernel)
        return y
    return kernel(x.contiguous(), gamma.contiguous(), beta.contiguous(), groups, eps)[0]


def check_arguments(x: Tensor, groups: int, gamma: Tensor, beta: Tensor) -> None:
    """Raise TypeError or ValueError unless the arguments describe a normalisation that torch accepts too."""
    device = x.device
    for name, tensor in (("x", x), ("gamma", gamma), ("beta", beta)):
        if tensor.dtype != torch.float32:
            raise TypeError(f"{name} must be float32, not {tensor.dtype}")
        if tensor.device != device:
            raise ValueError(f"{name} is on {tensor.device}, x on {device}")
    if x.dim() < 2:
        raise ValueError(f"x must have a batch and a channel dimension; its shape is {tuple(x.shape)}")
    channels = x.shape[1]
    if groups < 1 or channels % groups != 0:
        raise ValueError(f"{channels} channels do not divide into {groups} groups")
    if gamma.shape != (channels,) or beta.shape != (channels,):
        raise ValueError(f"gamma and beta must have shape ({channels},)")
    if x.shape[0] * (channels // groups) * math.prod(x.shape[2:]) == 1:
        raise ValueError(f"more than one value per group is needed; x has shape {tuple(x.shape)}")


class _GroupNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, gamma: Tensor, beta: Tensor, groups: int, eps: float, kernel: ForwardKernel
    ) -> Tensor:
        x = x.contiguous()
        y, mean, rstd = kernel(x, gamma.contiguous(), beta.contiguous(), groups, eps)
        ctx.save_for_backward(x, gamma, mean, rstd)
        ctx.groups = groups
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_y: Tensor) -> tuple[Tensor | None, ...]:
        x, gamma, mean, rstd = ctx.saved_tensors
        batch, channels = x.shape[:2]
        grads = torch.ops.aten.native_group_norm_backward(
            grad_y.contiguous(),
            x,
            mean,
            rstd,
            gamma,
            batch,
            channels,
            math.prod(x.shape[2:]),
            ctx.groups,
            list(ctx.needs_input_grad[:3]),
        )
        return *grads, None, None, None
