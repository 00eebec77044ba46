"""Convolution to logsumexp in one kernel of ours, on Hopper's tensor cores at fp32 accuracy.

The chain is convolution -> GroupNorm -> tanh -> hardswish -> + convolution -> logsumexp over channels.
"""

import ctypes
from functools import cache, partial

import torch
from torch import Tensor

from kbench.kernels import composed, conv_norm_logsumexp_general, native
from kbench.kernels.conv_shape import Pair, checked_arguments
from kbench.kernels.launch import launch
from kbench.kernels.recompute import differentiable

SOURCE = "conv_norm_logsumexp_wgmma.cu"
FORWARD = "kbench_conv_norm_logsumexp"
WORKSPACE = "kbench_conv_norm_logsumexp_workspace"
SIGNATURES = {
    FORWARD: [native.POINTER] * 7 + [native.INT64] * 7 + [native.FLOAT64, native.POINTER],
    WORKSPACE: [native.INT64] * 7 + [native.POINTER],
}

# What one tile of the kernel holds: see conv_norm_logsumexp_wgmma.md.
CAPABILITY = (9, 0)
KERNEL = (3, 3)
MAX_IN_CHANNELS = 8
MAX_OUT_CHANNELS = 64
# Output rows of all column strips together, which the kernel numbers with 32 bits; a strip is no narrower.
MAX_ROWS = 2**30
STRIP_PIXELS = 124

Sizes = tuple[int, ...]  # batch, in_channels, height, width, out_channels, kernel size, groups


@cache
def library() -> native.NativeLibrary:
    """Build and open the native library. UnsupportedDeviceError unless on a Hopper."""
    return native.load_cuda(SOURCE, SIGNATURES, min_capability=CAPABILITY, arch_specific=True)


def build(in_channels: int, out_channels: int, kernel: Pair) -> None:
    """Build what `conv_norm_logsumexp` needs for a layer of these sizes on the current device."""
    if native.device_capability() == CAPABILITY and _fits(in_channels, out_channels, kernel):
        library()
    else:
        conv_norm_logsumexp_general.build()


def conv_norm_logsumexp(
    x: Tensor, weight: Tensor, bias: Tensor, gamma: Tensor, beta: Tensor, *, groups: int, eps: float
) -> Tensor:
    """(N, C_in, H, W) -> (N, 1, H_out, W_out), fp32 on a CUDA device.

    On a Hopper GPU, 3x3 filters with at most 8 -> 64 channels take one launch; everything else goes to
    `conv_norm_logsumexp_general`. Gradients come from torch operators: the backward recomputes the chain and
    differentiates that. ValueError or TypeError for tensors of other types or shapes.
    """
    tensors = (x, weight, bias, gamma, beta)
    if not supports(x, weight):
        return conv_norm_logsumexp_general.conv_norm_logsumexp_general(*tensors, groups=groups, eps=eps)
    reference = partial(composed.conv_norm_logsumexp, groups=groups, eps=eps)
    return differentiable(partial(_forward, groups=groups, eps=eps), reference, *tensors)


def supports(x: Tensor, weight: Tensor) -> bool:
    """Whether the one-launch kernel takes these."""
    return (
        x.is_cuda
        and x.dim() == 4
        and weight.dim() == 4
        and native.device_capability(x.device) == CAPABILITY
        and _fits(x.shape[1], weight.shape[0], (weight.shape[2], weight.shape[3]))
        and x.shape[1] * x.shape[2] * x.shape[3] < 2**31
        and x.shape[0] * x.shape[2] * (x.shape[3] // STRIP_PIXELS + 1) < MAX_ROWS
    )


def _fits(in_channels: int, out_channels: int, kernel: Pair) -> bool:
    return kernel == KERNEL and in_channels <= MAX_IN_CHANNELS and out_channels <= MAX_OUT_CHANNELS


def _forward(*tensors: Tensor, groups: int, eps: float) -> Tensor:
    shape, tensors = checked_arguments(*tensors, groups=groups)
    out = tensors[0].new_empty((shape.batch, 1, shape.out_height, shape.out_width))
    if out.numel() == 0:
        return out
    sizes = (*tensors[0].shape, shape.out_channels, shape.kernel_height, groups)
    workspace = out.new_empty(_workspace_bytes(sizes, out.device), dtype=torch.uint8)
    launch(library(), FORWARD, *tensors, out, workspace, *sizes, eps)
    return out


@cache
def _workspace_bytes(sizes: Sizes, device: torch.device) -> int:
    """Bytes that the kernel wants beside its arguments, on this device."""
    count = ctypes.c_int64()
    with torch.cuda.device(device):
        library().call(WORKSPACE, *sizes, ctypes.addressof(count))
    return count.value
