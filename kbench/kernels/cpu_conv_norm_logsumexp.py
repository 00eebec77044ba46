"""Convolution -> GroupNorm -> tanh -> hardswish -> + convolution -> logsumexp, in C++ with OpenMP."""

from __future__ import annotations

from functools import cache, partial

import torch
from torch import Tensor

from kbench.kernels import composed, native
from kbench.kernels.conv_shape import ConvShape, channel_vector, check_group_size
from kbench.kernels.recompute import differentiable

FUNCTION = "kbench_cpu_conv_norm_logsumexp"


@cache
def library() -> native.NativeLibrary:
    """Build and open the native library."""
    signature = [native.POINTER] * 7 + [native.INT64] * 8 + [native.FLOAT64, native.INT64]
    return native.load_cpu("cpu_conv_norm_logsumexp.cpp", {FUNCTION: signature})


def conv_norm_logsumexp_cpu(
    x: Tensor, weight: Tensor, bias: Tensor, gamma: Tensor, beta: Tensor, *, groups: int, eps: float
) -> Tensor:
    """(N, C_in, H, W) -> (N, 1, H_out, W_out), all fp32 on the CPU; gradients through torch.

    ValueError or TypeError for arguments of other types or shapes.
    """
    options = {"groups": groups, "eps": eps}
    tensors = (x, weight, bias, gamma, beta)
    reference = partial(composed.conv_norm_logsumexp, **options)
    return differentiable(partial(_forward, **options), reference, *tensors)


def _forward(
    x: Tensor, weight: Tensor, bias: Tensor, gamma: Tensor, beta: Tensor, *, groups: int, eps: float
) -> Tensor:
    shape = ConvShape.of(x, weight, groups)
    channels = shape.out_channels
    check_group_size(shape.batch, channels // groups * shape.out_pixels)
    vectors = [
        channel_vector("bias", bias, channels),
        channel_vector("gamma", gamma, channels),
        channel_vector("beta", beta, channels),
    ]
    x, weight = x.contiguous(), weight.contiguous()
    out = x.new_empty((shape.batch, 1, shape.out_height, shape.out_width))
    workspace = x.new_empty(channels * shape.out_pixels)
    library().call(
        FUNCTION,
        *(tensor.data_ptr() for tensor in (x, weight, *vectors, out, workspace)),
        *(shape.batch, shape.in_channels, shape.height, shape.width),
        *(channels, shape.kernel_height, shape.kernel_width, groups),
        eps,
        torch.get_num_threads(),
    )
    return out
