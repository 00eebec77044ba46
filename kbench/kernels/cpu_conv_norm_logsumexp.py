"""Convolution -> GroupNorm -> tanh -> hardswish -> + convolution -> logsumexp, in C++ with OpenMP."""

from __future__ import annotations

from functools import cache, partial

import torch
from torch import Tensor

from kbench.kernels import composed, native
from kbench.kernels.conv_shape import checked_arguments
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


def _forward(*tensors: Tensor, groups: int, eps: float) -> Tensor:
    shape, tensors = checked_arguments(*tensors, groups=groups)
    out = tensors[0].new_empty((shape.batch, 1, shape.out_height, shape.out_width))
    workspace = out.new_empty(shape.out_channels * shape.out_pixels)
    library().call(
        FUNCTION,
        *(tensor.data_ptr() for tensor in (*tensors, out, workspace)),
        *(shape.batch, shape.in_channels, shape.height, shape.width),
        *(shape.out_channels, shape.kernel_height, shape.kernel_width, groups),
        eps,
        torch.get_num_threads(),
    )
    return out
