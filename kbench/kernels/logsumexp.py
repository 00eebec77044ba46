"""log(sum(exp(x))) over channels, without overflow."""

from __future__ import annotations

from functools import cache, partial
from math import prod

import torch
from torch import Tensor

from kbench.kernels import native
from kbench.kernels.launch import launch
from kbench.kernels.recompute import differentiable

FUNCTION = "kbench_logsumexp"


@cache
def library() -> native.NativeLibrary:
    """Build and open the native library."""
    signature = [native.POINTER] * 2 + [native.INT64] * 3 + [native.POINTER]
    return native.load_cuda("logsumexp.cu", {FUNCTION: signature})


def channel_logsumexp(x: Tensor) -> Tensor:
    """(N, C, *) fp32 on a CUDA device -> (N, 1, *); gradients through torch. TypeError for another dtype."""
    return differentiable(_forward, partial(torch.logsumexp, dim=1, keepdim=True), x)


def _forward(x: Tensor) -> Tensor:
    if x.dtype != torch.float32:
        raise TypeError(f"x must be float32, got {x.dtype}")
    x = x.contiguous()
    batch, channels = x.shape[:2]
    y = x.new_empty((batch, 1, *x.shape[2:]))
    launch(library(), FUNCTION, x, y, batch, channels, prod(x.shape[2:]))
    return y
