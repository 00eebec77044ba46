"""GroupNorm -> scale -> max-pool -> clamp in Triton: statistics, then one more read of the data."""

from functools import partial

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional

from kbench.kernels.conv_shape import Pair, channel_scale, channel_vector, pooled_size
from kbench.kernels.recompute import differentiable
from kbench.kernels.triton_statistics import channel_constants, group_statistics

BLOCK = 256  # of 128 to 1024, the fastest on an H200


@triton.jit
def _norm_pool_kernel(  # noqa: PLR0917 - kernels take their arguments by position
    x,
    statistics,
    gamma,
    beta,
    scale,
    out,
    channels,
    groups,
    height,
    width,
    out_height,
    out_width,
    pool_height,
    pool_width,
    clamp_min,
    clamp_max,
    BLOCK: tl.constexpr,
):
    """One program per stretch of one plane's pooled pixels; neighbouring lanes read neighbouring windows."""
    outputs = out_height * out_width
    stretches = tl.cdiv(outputs, BLOCK)
    plane = (tl.program_id(0) // stretches).to(tl.int64)
    at = (tl.program_id(0) % stretches) * BLOCK + tl.arange(0, BLOCK)
    present = at < outputs
    sample = plane // channels
    channel = plane % channels
    mean_high, mean_low, factor, shift = channel_constants(
        statistics, gamma, beta, sample, channel, True, channels, groups
    )
    extra = tl.load(scale + channel)
    corner = at // out_width * pool_height * width + at % out_width * pool_width
    best = tl.full((BLOCK,), float("-inf"), tl.float32)
    for row in range(pool_height):
        for column in range(pool_width):
            values = tl.load(x + plane * height * width + corner + row * width + column, mask=present, other=0.0)
            values = (((values - mean_high) - mean_low) * factor + shift) * extra
            # As torch's max-pool: a NaN, once seen, stays.
            best = tl.where((values > best) | (values != values), values, best)  # noqa: PLR0124
    best = tl.where(best < clamp_min, clamp_min, best)
    best = tl.where(best > clamp_max, clamp_max, best)
    tl.store(out + plane * outputs + at, best, mask=present)


def norm_pool(
    x: Tensor,
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
    """(N, C, H, W) fp32 -> (N, C, H // pool_h, W // pool_w); gradients through torch.

    `scale` holds one value or one per channel, (C, 1, 1). TypeError or ValueError for other arguments.
    """
    options = {"groups": groups, "eps": eps, "pool": pool, "clamp_min": clamp_min, "clamp_max": clamp_max}
    return differentiable(partial(_forward, **options), partial(_composed, **options), x, gamma, beta, scale)


def _composed(x, gamma, beta, scale, *, groups, eps, pool, clamp_min, clamp_max):
    normed = functional.group_norm(x, groups, gamma, beta, eps) * scale
    return functional.max_pool2d(normed, pool).clamp(clamp_min, clamp_max)


def _forward(x, gamma, beta, scale, *, groups, eps, pool, clamp_min, clamp_max):
    if x.dtype != torch.float32:
        raise TypeError(f"x must be float32, got {x.dtype}")
    x = x.contiguous()
    batch, channels, height, width = x.shape
    pooled = pooled_size(height, width, pool)
    vectors = channel_vector("gamma", gamma, channels), channel_vector("beta", beta, channels)
    factors = channel_scale(scale, channels)
    out = x.new_empty((batch, channels, *pooled))
    statistics = group_statistics(x, groups, eps)
    programs = batch * channels * triton.cdiv(pooled[0] * pooled[1], BLOCK)
    if programs:
        _norm_pool_kernel[(programs,)](
            *(x, statistics, *vectors, factors, out, channels, groups, height, width, *pooled, *pool),
            *(float(clamp_min), float(clamp_max)),
            BLOCK=BLOCK,
            num_warps=4,
        )
    return out
