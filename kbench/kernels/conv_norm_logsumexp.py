"""Convolution to logsumexp in one kernel of ours, on Hopper's tensor cores at fp32 accuracy.

The chain is convolution -> GroupNorm -> tanh -> hardswish -> + convolution -> logsumexp over channels.
"""

import ctypes
from functools import cache, partial

import torch
from torch import Tensor

from kbench.kernels import composed, native
from kbench.kernels.conv_shape import ConvShape, channel_vector
from kbench.kernels.recompute import differentiable

SOURCE = "conv_norm_logsumexp_wgmma.cu"
FORWARD = "kbench_conv_norm_logsumexp"
WORKSPACE = "kbench_conv_norm_logsumexp_workspace"
SIGNATURES = {
    FORWARD: [native.POINTER] * 7 + [native.INT64] * 7 + [native.FLOAT64, native.POINTER],
    WORKSPACE: [native.INT64] * 7 + [native.POINTER],
}

# What one tile of the kernel holds: see conv_norm_logsumexp_wgmma.md.
KERNEL_SIZE = 3
MAX_IN_CHANNELS = 8
MAX_OUT_CHANNELS = 64

Sizes = tuple[int, ...]  # batch, in_channels, height, width, out_channels, kernel size, groups


@cache
def library() -> native.NativeLibrary:
    """Build and open the native library. UnsupportedDeviceError unless the compute capability is 9.0."""
    return native.load_cuda(SOURCE, SIGNATURES, min_capability=(9, 0), arch_specific=True)


def supports(in_channels: int, out_channels: int, kernel_size: int | tuple[int, int]) -> bool:
    """Whether the kernel holds such a convolution; height, width, batch and groups are free."""
    return (
        kernel_size in (KERNEL_SIZE, (KERNEL_SIZE, KERNEL_SIZE))
        and 1 <= in_channels <= MAX_IN_CHANNELS
        and 1 <= out_channels <= MAX_OUT_CHANNELS
    )


def conv_norm_logsumexp(
    x: Tensor, weight: Tensor, bias: Tensor, gamma: Tensor, beta: Tensor, *, groups: int, eps: float
) -> Tensor:
    """Map (N, C_in, H, W), with weight (C_out, C_in, 3, 3), to (N, 1, H - 2, W - 2), all fp32 on one CUDA device.

    C_in <= 8, C_out <= 64. Gradients are those of the same function in torch operators, with TF32 off.
    TypeError or ValueError for arguments of other types or shapes, UnsupportedDeviceError for other devices.
    """
    native_forward = partial(_forward, groups=groups, eps=eps)
    torch_forward = partial(composed.conv_norm_logsumexp, groups=groups, eps=eps)
    return differentiable(native_forward, torch_forward, x, weight, bias, gamma, beta)


def _forward(
    x: Tensor, weight: Tensor, bias: Tensor, gamma: Tensor, beta: Tensor, *, groups: int, eps: float
) -> Tensor:
    shape = ConvShape.of(x, weight, groups)
    _check_sizes(shape)
    channels = shape.out_channels
    vectors = (
        channel_vector("bias", bias, channels),
        channel_vector("gamma", gamma, channels),
        channel_vector("beta", beta, channels),
    )
    tensors = (x.contiguous(), weight.contiguous(), *vectors)
    if not x.is_cuda or any(tensor.device != x.device for tensor in tensors):
        raise ValueError(f"all tensors must be on one CUDA device, got {[str(t.device) for t in tensors]}")
    out = x.new_empty((shape.batch, 1, shape.out_height, shape.out_width))
    if out.numel() == 0:
        return out
    sizes = (*x.shape, channels, KERNEL_SIZE, groups)
    with torch.cuda.device(x.device):
        workspace = torch.empty(_workspace_bytes(sizes, x.device), dtype=torch.uint8, device=x.device)
        addresses = (tensor.data_ptr() for tensor in (*tensors, out, workspace))
        library().call(FORWARD, *addresses, *sizes, eps, native.current_stream(x.device))
    return out


def _check_sizes(shape: ConvShape) -> None:
    if shape.kernel_height != shape.kernel_width or not supports(
        shape.in_channels, shape.out_channels, shape.kernel_height
    ):
        raise ValueError(
            f"a {shape.kernel_height} x {shape.kernel_width} convolution of {shape.in_channels} to"
            f" {shape.out_channels} channels is not supported; at most {MAX_IN_CHANNELS} to"
            f" {MAX_OUT_CHANNELS} channels, {KERNEL_SIZE} x {KERNEL_SIZE}, are"
        )
    if shape.out_channels // shape.groups * shape.out_pixels == 1:
        raise ValueError("group normalisation needs more than one value per group")


@cache
def _workspace_bytes(sizes: Sizes, device: torch.device) -> int:
    """Bytes that the kernel wants beside its arguments, on this device; ValueError for sizes beyond it."""
    count = ctypes.c_int64()
    with torch.cuda.device(device):
        try:
            library().call(WORKSPACE, *sizes, ctypes.addressof(count))
        except RuntimeError as error:
            raise ValueError(f"sizes {sizes} are beyond the kernel's index range") from error
    return count.value
