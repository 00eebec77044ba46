"""Group normalisation: a statistics kernel, then an apply kernel."""

from __future__ import annotations

from functools import cache, partial
from math import prod

from torch import Tensor
from torch.nn import functional

from kbench.kernels import native
from kbench.kernels.conv_shape import channel_vector
from kbench.kernels.group_statistics import group_statistics
from kbench.kernels.launch import launch
from kbench.kernels.recompute import differentiable

FUNCTION = "kbench_normalise"


@cache
def library() -> native.NativeLibrary:
    """Build and open the native library."""
    signature = [native.POINTER] * 5 + [native.INT64] * 4 + [native.POINTER]
    return native.load_cuda("normalise.cu", {FUNCTION: signature})


def normalise(x: Tensor, gamma: Tensor, beta: Tensor, *, groups: int, eps: float) -> Tensor:
    """(N, C, *) fp32 on a CUDA device -> the same shape, contiguous; gradients through torch.

    TypeError or ValueError for tensors of other types or shapes.
    """
    return differentiable(
        partial(_forward, groups=groups, eps=eps),
        lambda x, gamma, beta: functional.group_norm(x, groups, gamma, beta, eps),
        *(x, gamma, beta),
    )


def _forward(x: Tensor, gamma: Tensor, beta: Tensor, *, groups: int, eps: float) -> Tensor:
    x = x.contiguous()
    batch, channels = x.shape[:2]
    vectors = channel_vector("gamma", gamma, channels), channel_vector("beta", beta, channels)
    y = x.new_empty(x.shape)
    statistics = group_statistics(x, groups, eps)
    launch(library(), FUNCTION, x, statistics, *vectors, y, batch, channels, groups, prod(x.shape[2:]))
    return y
