"""Convolution -> GroupNorm -> scale -> max-pool -> clamp for any shape, one kernel per operator."""

from __future__ import annotations

from torch import Tensor

from kbench.kernels import channel_scale, group_statistics, im2col_matmul, max_pool, normalise
from kbench.kernels import clamp as clamp_operator
from kbench.kernels.conv_shape import Pair


def build() -> None:
    """Build and open every native library that the operator uses."""
    for operator in (im2col_matmul, group_statistics, normalise, channel_scale, max_pool, clamp_operator):
        operator.library()


def conv_norm_pool_general(
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
    """(N, C_in, H, W) -> (N, C_out, H_out // pool_h, W_out // pool_w), fp32 on a CUDA device.

    Every product is an fp32 FMA: no range of values is excluded. No torch operator computes in the forward;
    each step's gradient goes through torch. TypeError or ValueError for tensors of other types or shapes.
    """
    convolved = im2col_matmul.im2col_convolution(x, weight, bias)
    normed = normalise.normalise(convolved, gamma, beta, groups=groups, eps=eps)
    scaled = channel_scale.scale_channels(normed, scale)
    return clamp_operator.clamp(max_pool.max_pool(scaled, pool), clamp_min, clamp_max)
