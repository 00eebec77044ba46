"""Convolution -> GroupNorm -> scale -> max-pool -> clamp in one launch, on Hopper tensor cores, as fp32."""

from __future__ import annotations

from functools import cache, lru_cache, partial

import torch
from torch import Tensor

from kbench.kernels import composed, conv_norm_pool_general, native
from kbench.kernels.conv_shape import Pair, channel_scale, checked_arguments, pooled_size
from kbench.kernels.quick_call import KEPT_SIZES, are_plain, submit, unlike, wants_gradient
from kbench.kernels.recompute import differentiable

SOURCE = "conv_norm_pool_wgmma.cu"
FUNCTION = "kbench_conv_norm_pool"

# What the kernel is built for; plan.cuh holds the same figures.
CAPABILITY = (9, 0)
KERNEL = (3, 3)
POOL = (4, 4)
MAX_IN_CHANNELS = 8
MAX_OUT_CHANNELS = 64
MAX_CLUSTER = 4
MAX_WINDOWS = 496  # pooled values of a channel in a block's share
# A round is a sample of one cluster, and the kernel keeps a bit for each; 16 clusters fit any device.
MAX_BATCH = 4096 * 16


@cache
def library() -> native.NativeLibrary:
    """Build and open the native library. UnsupportedDeviceError unless on a Hopper."""
    signature = [native.POINTER] * 7 + [native.INT32] * 6 + [native.FLOAT32] * 3 + [native.POINTER]
    return native.load_cuda(SOURCE, {FUNCTION: signature}, min_capability=CAPABILITY, arch_specific=True)


def build(in_channels: int, out_channels: int, kernel: Pair, pool: Pair) -> None:
    """Build what `conv_norm_pool` needs for a layer of these sizes on the current device."""
    if native.device_capability() == CAPABILITY and _fits(in_channels, out_channels, kernel, pool):
        library()
    else:
        conv_norm_pool_general.build()


def conv_norm_pool(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    gamma: Tensor,
    beta: Tensor,
    scale: Tensor,
    *,
    groups: int,
    eps: float,
    pool: Pair,
    clamp_min: float,
    clamp_max: float,
) -> Tensor:
    """(N, C_in, H, W) -> (N, C_out, H_out // pool_h, W_out // pool_w), fp32 on a CUDA device.

    `scale` holds one value or one per channel, (C_out, 1, 1). On a Hopper GPU, 3x3 filters with 4x4 pooling and
    at most 8 -> 64 channels take one launch, for images whose pooled values fit in the shared memory of four blocks (up
    to 178 x 178, or longer and narrower); everything else goes to `conv_norm_pool_general`. Gradients come from torch
    operators: the backward recomputes the chain and differentiates that. ValueError or TypeError for tensors of other
    types or shapes.
    """
    options = {"groups": groups, "eps": eps, "pool": pool, "clamp_min": clamp_min, "clamp_max": clamp_max}
    tensors = (x, weight, bias, gamma, beta, scale)
    if not supports(x, weight, pool):
        return conv_norm_pool_general.conv_norm_pool_general(*tensors, **options)
    if not wants_gradient(tensors):
        return _forward(*tensors, **options)
    reference = partial(composed.conv_norm_pool, **options)
    return differentiable(partial(_forward, **options), reference, *tensors)


def supports(x: Tensor, weight: Tensor, pool: Pair) -> bool:
    """Whether the one-launch kernel takes these."""
    return x.is_cuda and _supports(x.get_device(), x.shape, weight.shape, (pool[0], pool[1]))


@lru_cache(maxsize=KEPT_SIZES)
def _supports(device: int, x: torch.Size, weight: torch.Size, pool: Pair) -> bool:
    return (
        len(x) == 4
        and len(weight) == 4
        and native.device_capability(device) == CAPABILITY
        and _fits(x[1], weight[0], (weight[2], weight[3]), pool)
        and x[0] <= MAX_BATCH
        and _windows(x[2], x[3]) <= MAX_WINDOWS
        and x[1] * x[2] * x[3] < 2**31
    )


def _fits(in_channels: int, out_channels: int, kernel: Pair, pool: Pair) -> bool:
    return (
        kernel == KERNEL and tuple(pool) == POOL and in_channels <= MAX_IN_CHANNELS and out_channels <= MAX_OUT_CHANNELS
    )


def _windows(height: int, width: int) -> int:
    """Pooled values of a channel in the share of one block of the largest cluster."""
    units = -(-(height - KERNEL[0] + 1) // POOL[0])
    return -(-units // MAX_CLUSTER) * ((width - KERNEL[1] + 1) // POOL[1])


def _forward(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    gamma: Tensor,
    beta: Tensor,
    scale: Tensor,
    *,
    groups: int,
    eps: float,
    pool: Pair,
    clamp_min: float,
    clamp_max: float,
) -> Tensor:
    # A call must cost the host less than the kernel takes: what sizes decide is looked up.
    device = x.get_device()
    plain = are_plain((x, weight, bias, gamma, beta, scale), device)
    if not plain:
        _, (x, weight, bias, gamma, beta) = checked_arguments(x, weight, bias, gamma, beta, groups=groups)
        if scale.device != x.device:
            raise ValueError(f"all tensors must be on one device, got {x.device}, {scale.device}")
    sizes = x.shape, weight.shape, bias.shape, gamma.shape, beta.shape, scale.shape
    out_size, numbers = _sizes(*sizes, groups, (pool[0], pool[1]))
    if not plain or scale.numel() == 1:
        scale = channel_scale(scale, numbers[4])
    out = x.new_empty(out_size)
    if out.numel() == 0:
        return out
    submit(
        library(),
        FUNCTION,
        device,
        x.data_ptr(),
        weight.data_ptr(),
        bias.data_ptr(),
        gamma.data_ptr(),
        beta.data_ptr(),
        scale.data_ptr(),
        out.data_ptr(),
        *numbers,
        eps,
        clamp_min,
        clamp_max,
    )
    return out


@lru_cache(maxsize=KEPT_SIZES)
def _sizes(
    x: torch.Size,
    weight: torch.Size,
    bias: torch.Size,
    gamma: torch.Size,
    beta: torch.Size,
    scale: torch.Size,
    groups: int,
    pool: Pair,
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Tell the output's size and the numbers that the kernel takes. ValueError for sizes that do not go together."""
    shape, _ = checked_arguments(*map(unlike, (x, weight, bias, gamma, beta)), groups=groups)
    channel_scale(unlike(scale), shape.out_channels)
    pooled = pooled_size(shape.out_height, shape.out_width, pool)
    numbers = (shape.batch, shape.in_channels, shape.height, shape.width, shape.out_channels, groups)
    return (shape.batch, shape.out_channels, *pooled), numbers
