"""The convolution chains in torch operators: what the hand-written forwards differentiate through."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from kbench.kernels.conv_shape import Pair


def conv_norm_pool(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    gamma: Tensor,
    beta: Tensor,
    scale: Tensor,
    *,
    groups: int,
    eps: float,
    pool: Pair,
    clamp_min: float,
    clamp_max: float,
) -> Tensor:
    """Convolution -> GroupNorm -> scale -> max-pool -> clamp: (N, C_out, H_pooled, W_pooled)."""
    normed = functional.group_norm(functional.conv2d(x, weight, bias), groups, gamma, beta, eps)
    return functional.max_pool2d(normed * scale, pool).clamp(clamp_min, clamp_max)


def activation_residual(x: Tensor, gamma: Tensor, beta: Tensor, *, groups: int, eps: float) -> Tensor:
    """Group normalisation, tanh, hardswish, plus x; in the shape of x."""
    return x + functional.hardswish(torch.tanh(functional.group_norm(x, groups, gamma, beta, eps)))


def conv_norm_logsumexp(
    x: Tensor, weight: Tensor, bias: Tensor, gamma: Tensor, beta: Tensor, *, groups: int, eps: float
) -> Tensor:
    """Convolution -> GroupNorm -> tanh -> hardswish -> + convolution -> logsumexp: (N, 1, H_out, W_out)."""
    convolved = functional.conv2d(x, weight, bias)
    summands = activation_residual(convolved, gamma, beta, groups=groups, eps=eps)
    return torch.logsumexp(summands, dim=1, keepdim=True)
