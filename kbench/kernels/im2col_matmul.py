"""Convolution as im2col and a tiled fp32 matrix product, for any kernel size."""

from __future__ import annotations

from functools import cache

from torch import Tensor
from torch.nn import functional

from kbench.kernels import native
from kbench.kernels.conv_shape import ConvShape, channel_vector
from kbench.kernels.launch import launch
from kbench.kernels.recompute import differentiable

FUNCTION = "kbench_im2col_matmul"

# Room for the columns: samples go through in as few rounds as fit. On an H200, convolving 128 x 8 x 128 x 128
# to 64 channels took 0.86 ms in rounds of 73 MB, 0.79 ms at 256 MB and 0.76 ms at once (600 MB): what a round's
# tail leaves idle costs more than a trip to HBM.
COLUMN_BYTES = 256 << 20


@cache
def library() -> native.NativeLibrary:
    """Build and open the native library."""
    signature = [native.POINTER] * 5 + [native.INT64] * 8 + [native.POINTER]
    return native.load_cuda("im2col_matmul.cu", {FUNCTION: signature})


def im2col_convolution(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """conv2d(x, weight, bias), stride 1, no padding, fp32 on a CUDA device; gradients through torch.

    TypeError or ValueError for tensors of other types or shapes.
    """
    return differentiable(_forward, functional.conv2d, x, weight, bias)


def _forward(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    shape = ConvShape.of(x, weight)
    bias = channel_vector("bias", bias, shape.out_channels)
    pitch = (shape.out_pixels + 3) // 4 * 4
    samples = min(max(1, COLUMN_BYTES // (4 * shape.taps * pitch)), max(1, shape.batch))
    columns = x.new_empty((samples, shape.taps, pitch))
    out = x.new_empty((shape.batch, shape.out_channels, shape.out_height, shape.out_width))
    launch(
        library(),
        FUNCTION,
        *(x.contiguous(), weight.contiguous(), bias, columns, out),
        *(shape.batch, shape.in_channels, shape.height, shape.width),
        *(shape.out_channels, shape.kernel_height, shape.kernel_width),
        samples,
    )
    return out
