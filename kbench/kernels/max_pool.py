"""Max-pool with stride = kernel and no padding."""

from __future__ import annotations

from functools import cache, partial

import torch
from torch import Tensor
from torch.nn import functional

from kbench.kernels import native
from kbench.kernels.conv_shape import Pair, pooled_size
from kbench.kernels.launch import launch
from kbench.kernels.recompute import differentiable

FUNCTION = "kbench_max_pool"


@cache
def library() -> native.NativeLibrary:
    """Build and open the native library."""
    signature = [native.POINTER] * 2 + [native.INT64] * 5 + [native.POINTER]
    return native.load_cuda("max_pool.cu", {FUNCTION: signature})


def max_pool(x: Tensor, pool: Pair) -> Tensor:
    """(N, C, H, W) fp32 on a CUDA device -> (N, C, H // pool_h, W // pool_w); a window with a NaN gives NaN.

    Gradients through torch. TypeError for another dtype, ValueError where the kernel does not fit.
    """
    return differentiable(partial(_forward, pool=pool), partial(functional.max_pool2d, kernel_size=pool), x)


def _forward(x: Tensor, *, pool: Pair) -> Tensor:
    if x.dtype != torch.float32:
        raise TypeError(f"x must be float32, got {x.dtype}")
    x = x.contiguous()
    batch, channels, height, width = x.shape
    y = x.new_empty((batch, channels, *pooled_size(height, width, pool)))
    launch(library(), FUNCTION, x, y, batch * channels, height, width, *pool)
    return y
