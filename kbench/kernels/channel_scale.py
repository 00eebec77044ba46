"""One factor per channel."""

from __future__ import annotations

from functools import cache
from math import prod

from torch import Tensor

from kbench.kernels import conv_shape, native
from kbench.kernels.launch import launch
from kbench.kernels.recompute import differentiable

FUNCTION = "kbench_channel_scale"


@cache
def library() -> native.NativeLibrary:
    """Build and open the native library."""
    signature = [native.POINTER] * 3 + [native.INT64] * 3 + [native.POINTER]
    return native.load_cuda("channel_scale.cu", {FUNCTION: signature})


def scale_channels(x: Tensor, scale: Tensor) -> Tensor:
    """Multiply (N, C, H, W) fp32 on a CUDA device by one value, or one per channel as (C, 1, 1).

    Gradients through torch. TypeError or ValueError for tensors of other types or shapes.
    """
    return differentiable(_forward, lambda x, scale: x * scale, x, scale)


def _forward(x: Tensor, scale: Tensor) -> Tensor:
    x = x.contiguous()
    batch, channels = x.shape[:2]
    factors = conv_shape.channel_scale(scale, channels)
    y = x.new_empty(x.shape)
    launch(library(), FUNCTION, x, factors, y, batch, channels, prod(x.shape[2:]))
    return y
