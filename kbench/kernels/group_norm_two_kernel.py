"""GroupNorm on the GPU in two kernels of ours: statistics per group, then normalisation; any shape and alignment."""

import functools
import math

import torch
from torch import Tensor

from kbench.kernels import native

FUNCTION = "kbench_group_norm_two_kernel"
SIGNATURES = {
    FUNCTION: (native.POINTER,) * 7 + (native.INT64,) * 4 + (native.FLOAT64, native.POINTER),
}


@functools.cache
def library() -> native.NativeLibrary:
    """Build and open the kernels for the current device; UnsupportedDeviceError if it is older than sm_80."""
    return native.load_cuda("group_norm_two_kernel.cu", SIGNATURES)


def forward_kernel(x: Tensor, gamma: Tensor, beta: Tensor, groups: int, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """Normalise a contiguous CUDA tensor (batch, channels, *); returns y, mean and rstd."""
    batch, channels = x.shape[:2]
    y = torch.empty_like(x)
    statistics = x.new_empty(3, batch, groups)
    if x.numel() > 0:
        tensors = (x, y, gamma, beta, *statistics.unbind())
        sizes = (batch, groups, channels // groups, math.prod(x.shape[2:]))
        with torch.cuda.device(x.device):
            pointers = (tensor.data_ptr() for tensor in tensors)
            library().call(FUNCTION, *pointers, *sizes, eps, native.current_stream(x.device))
    return y, statistics[0], statistics[2]
