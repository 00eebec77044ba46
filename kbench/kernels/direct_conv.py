"""Direct convolution in fp32."""

from __future__ import annotations

from functools import cache

from torch import Tensor
from torch.nn import functional

from kbench.kernels import native
from kbench.kernels.conv_shape import ConvShape, channel_vector
from kbench.kernels.launch import launch
from kbench.kernels.recompute import differentiable

FUNCTION = "kbench_direct_conv"

# Two stages, each of at least one input channel's taps and pixels, must fit in 48 KB of shared memory.
MAX_TAPS = 64
MAX_KERNEL_SIDE = 36


@cache
def library() -> native.NativeLibrary:
    """Build and open the native library."""
    signature = [native.POINTER] * 4 + [native.INT64] * 7 + [native.POINTER]
    return native.load_cuda("direct_conv.cu", {FUNCTION: signature})


def supports(kernel_height: int, kernel_width: int) -> bool:
    """Whether filters of this size fit; all other sizes are free."""
    return kernel_height * kernel_width <= MAX_TAPS and max(kernel_height, kernel_width) <= MAX_KERNEL_SIDE


def direct_convolution(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """conv2d(x, weight, bias), stride 1, no padding, fp32 on a CUDA device; gradients through torch.

    TypeError or ValueError for tensors of other types or shapes, also for filters that `supports` refuses.
    """
    return differentiable(_forward, functional.conv2d, x, weight, bias)


def _forward(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    shape = ConvShape.of(x, weight)
    bias = channel_vector("bias", bias, shape.out_channels)
    kernel = shape.kernel_height, shape.kernel_width
    if not supports(*kernel):
        raise ValueError(f"filters of {kernel[0]} x {kernel[1]} are too large for a direct convolution")
    out = x.new_empty((shape.batch, shape.out_channels, shape.out_height, shape.out_width))
    launch(
        library(),
        FUNCTION,
        *(x.contiguous(), weight.contiguous(), bias, out),
        *(shape.batch, shape.in_channels, shape.height, shape.width),
        *(shape.out_channels, shape.kernel_height, shape.kernel_width),
    )
    return out
