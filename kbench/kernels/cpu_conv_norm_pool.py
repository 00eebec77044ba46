"""Convolution -> GroupNorm -> scale -> max-pool -> clamp in one pass, in C++ with OpenMP."""

from __future__ import annotations

from functools import cache, partial

import torch
from torch import Tensor

from kbench.kernels import composed, native
from kbench.kernels.conv_shape import Pair, channel_scale, checked_arguments, pooled_size
from kbench.kernels.recompute import differentiable

FUNCTION = "kbench_cpu_conv_norm_pool"


@cache
def library() -> native.NativeLibrary:
    """Build and open the native library."""
    signature = [native.POINTER] * 8 + [native.INT64] * 8 + [native.FLOAT64] + [native.INT64] * 2
    signature += [native.FLOAT32] * 2 + [native.INT64]
    return native.load_cpu("cpu_conv_norm_pool.cpp", {FUNCTION: signature})


def conv_norm_pool_cpu(
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
    """(N, C_in, H, W) -> (N, C_out, H_out // pool_h, W_out // pool_w), fp32 on the CPU.

    `scale` holds one value or one per channel, (C_out, 1, 1). ValueError or TypeError for other arguments.
    """
    options = {"groups": groups, "eps": eps, "pool": pool, "clamp_min": clamp_min, "clamp_max": clamp_max}
    tensors = (x, weight, bias, gamma, beta, scale)
    reference = partial(composed.conv_norm_pool, **options)
    return differentiable(partial(_forward, **options), reference, *tensors)


def _forward(*tensors: Tensor, groups: int, eps: float, pool: Pair, clamp_min: float, clamp_max: float) -> Tensor:
    *tensors, scale = tensors
    shape, tensors = checked_arguments(*tensors, groups=groups)
    scale = channel_scale(scale, shape.out_channels)
    pooled = pooled_size(shape.out_height, shape.out_width, pool)
    out = scale.new_empty((shape.batch, shape.out_channels, *pooled))
    threads = torch.get_num_threads()
    workspace = out.new_empty(threads * (shape.out_channels // groups * shape.out_pixels + shape.out_width))
    library().call(
        FUNCTION,
        *(tensor.data_ptr() for tensor in (*tensors, scale, out, workspace)),
        *(shape.batch, shape.in_channels, shape.height, shape.width),
        *(shape.out_channels, shape.kernel_height, shape.kernel_width, groups),
        eps,
        *pool,
        clamp_min,
        clamp_max,
        threads,
    )
    return out
