"""torch's convolution in true fp32, forward and backward."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

from kbench.kernels.precision import ieee_float32
from kbench.kernels.recompute import differentiable


def torch_convolution(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """conv2d(x, weight, bias) with TF32 off, whatever the process-wide setting; off in the backward too."""
    return differentiable(_forward, functional.conv2d, x, weight, bias)


def _forward(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    with ieee_float32():
        return functional.conv2d(x, weight, bias)
