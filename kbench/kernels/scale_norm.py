"""Group normalisation and a further factor per channel, fused: a statistics kernel, then one apply kernel."""

from __future__ import annotations

from functools import cache, partial
from math import prod

from torch import Tensor
from torch.nn import functional

from kbench.kernels import native
from kbench.kernels.conv_shape import channel_scale, channel_vector
from kbench.kernels.group_statistics import group_statistics
from kbench.kernels.launch import launch
from kbench.kernels.recompute import differentiable

FUNCTION = "kbench_scale_norm"


@cache
def library() -> native.NativeLibrary:
    """Build and open the native library."""
    signature = [native.POINTER] * 6 + [native.INT64] * 4 + [native.POINTER]
    return native.load_cuda("scale_norm.cu", {FUNCTION: signature})


def scale_norm(x: Tensor, gamma: Tensor, beta: Tensor, scale: Tensor, *, groups: int, eps: float) -> Tensor:
    """group_norm(x) * scale for (N, C, H, W) fp32 on a CUDA device; gradients through torch.

    `scale` holds one value or one per channel, (C, 1, 1). TypeError or ValueError for tensors of other types
    or shapes.
    """
    return differentiable(
        partial(_forward, groups=groups, eps=eps),
        lambda x, gamma, beta, scale: functional.group_norm(x, groups, gamma, beta, eps) * scale,
        *(x, gamma, beta, scale),
    )


def _forward(x: Tensor, gamma: Tensor, beta: Tensor, scale: Tensor, *, groups: int, eps: float) -> Tensor:
    x = x.contiguous()
    batch, channels = x.shape[:2]
    vectors = channel_vector("gamma", gamma, channels), channel_vector("beta", beta, channels)
    factors = channel_scale(scale, channels)
    y = x.new_empty(x.shape)
    statistics = group_statistics(x, groups, eps)
    launch(library(), FUNCTION, x, statistics, *vectors, factors, y, batch, channels, groups, prod(x.shape[2:]))
    return y
