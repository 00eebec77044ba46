"""Values held between two bounds."""

from __future__ import annotations

from functools import cache, partial

import torch
from torch import Tensor

from kbench.kernels import native
from kbench.kernels.launch import launch
from kbench.kernels.recompute import differentiable

FUNCTION = "kbench_clamp"


@cache
def library() -> native.NativeLibrary:
    """Build and open the native library."""
    signature = [native.POINTER] * 2 + [native.INT64] + [native.FLOAT32] * 2 + [native.POINTER]
    return native.load_cuda("clamp.cu", {FUNCTION: signature})


def clamp(x: Tensor, low: float, high: float) -> Tensor:
    """Clamp fp32 values of any shape on a CUDA device; NaN stays NaN. Gradients through torch."""
    return differentiable(partial(_forward, low=low, high=high), partial(torch.clamp, min=low, max=high), x)


def _forward(x: Tensor, *, low: float, high: float) -> Tensor:
    if x.dtype != torch.float32:
        raise TypeError(f"x must be float32, got {x.dtype}")
    x = x.contiguous()
    y = x.new_empty(x.shape)
    launch(library(), FUNCTION, x, y, x.numel(), low, high)
    return y
