"""Convolution to logsumexp in one kernel of ours, on Hopper's tensor cores at fp32 accuracy.

The chain is convolution -> GroupNorm -> tanh -> hardswish -> + convolution -> logsumexp over channels.
"""

import ctypes
from functools import cache, lru_cache, partial

import torch
from torch import Tensor

from kbench.kernels import composed, conv_norm_logsumexp_general, native
from kbench.kernels.conv_shape import Pair, checked_arguments
from kbench.kernels.quick_call import KEPT_SIZES, are_plain, submit, unlike, wants_gradient
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
    if not wants_gradient(tensors):
        return _forward(*tensors, groups=groups, eps=eps)
    reference = partial(composed.conv_norm_logsumexp, groups=groups, eps=eps)
    return differentiable(partial(_forward, groups=groups, eps=eps), reference, *tensors)


def supports(x: Tensor, weight: Tensor) -> bool:
    """Whether the one-launch kernel takes these."""
    return x.is_cuda and _supports(x.get_device(), x.shape, weight.shape)


@lru_cache(maxsize=KEPT_SIZES)
def _supports(device: int, x: torch.Size, weight: torch.Size) -> bool:
    return (
        len(x) == 4
        and len(weight) == 4
        and native.device_capability(device) == CAPABILITY
        and _fits(x[1], weight[0], (weight[2], weight[3]))
        and x[1] * x[2] * x[3] < 2**31
        and x[0] * x[2] * (x[3] // STRIP_PIXELS + 1) < MAX_ROWS
    )


def _fits(in_channels: int, out_channels: int, kernel: Pair) -> bool:
    return kernel == KERNEL and in_channels <= MAX_IN_CHANNELS and out_channels <= MAX_OUT_CHANNELS


def _forward(
    x: Tensor, weight: Tensor, bias: Tensor, gamma: Tensor, beta: Tensor, *, groups: int, eps: float
) -> Tensor:
    # A call must cost the host less than the kernel takes: what sizes decide is looked up.
    device = x.get_device()
    if not are_plain((x, weight, bias, gamma, beta), device):
        _, (x, weight, bias, gamma, beta) = checked_arguments(x, weight, bias, gamma, beta, groups=groups)
    sizes = x.shape, weight.shape, bias.shape, gamma.shape, beta.shape
    out_size, numbers, workspace_bytes = _sizes(device, *sizes, groups)
    out = x.new_empty(out_size)
    if out.numel() == 0:
        return out
    workspace = x.new_empty(workspace_bytes, dtype=torch.uint8)
    submit(
        library(),
        FORWARD,
        device,
        x.data_ptr(),
        weight.data_ptr(),
        bias.data_ptr(),
        gamma.data_ptr(),
        beta.data_ptr(),
        out.data_ptr(),
        workspace.data_ptr(),
        *numbers,
        eps,
    )
    return out


@lru_cache(maxsize=KEPT_SIZES)
def _sizes(
    device: int,
    x: torch.Size,
    weight: torch.Size,
    bias: torch.Size,
    gamma: torch.Size,
    beta: torch.Size,
    groups: int,
) -> tuple[tuple[int, ...], Sizes, int]:
    """Tell the output's size, the numbers that the kernel takes, and how many bytes it wants beside its arguments."""
    shape, _ = checked_arguments(*map(unlike, (x, weight, bias, gamma, beta)), groups=groups)
    numbers = (*x, shape.out_channels, shape.kernel_height, groups)
    workspace_bytes = ctypes.c_int64()
    if shape.batch > 0:
        with torch.cuda.device(device):
            library().call(WORKSPACE, *numbers, ctypes.addressof(workspace_bytes))
    return (shape.batch, 1, shape.out_height, shape.out_width), numbers, workspace_bytes.value
