"""GroupNorm -> tanh -> hardswish -> + x -> logsumexp in Triton: statistics, then one more read of x."""

from functools import partial
from math import prod

import torch
import triton
import triton.language as tl
from torch import Tensor

from kbench.kernels import composed
from kbench.kernels.conv_shape import channel_vector
from kbench.kernels.recompute import differentiable
from kbench.kernels.triton_statistics import channel_constants, group_statistics

# Of 8 to 64 channels x 64 to 256 pixels, the fastest on an H200.
CHANNEL_BLOCK = 8
PIXEL_BLOCK = 256


@triton.jit
def _shift_of(maximum):
    """Give what to subtract before e^x: an infinite maximum would make inf - inf, and needs no scaling."""
    return tl.where(tl.abs(maximum) == float("inf"), 0.0, maximum)


@triton.jit
def _norm_logsumexp_kernel(  # noqa: PLR0917 - kernels take their arguments by position
    x,
    statistics,
    gamma,
    beta,
    out,
    channels,
    groups,
    pixels,
    CHANNEL_BLOCK: tl.constexpr,
    PIXEL_BLOCK: tl.constexpr,
):
    """One program per stretch of one sample's pixels; blocks of channels with a running maximum and sum."""
    stretches = tl.cdiv(pixels, PIXEL_BLOCK)
    sample = (tl.program_id(0) // stretches).to(tl.int64)
    pixel = (tl.program_id(0) % stretches) * PIXEL_BLOCK + tl.arange(0, PIXEL_BLOCK)
    maximum = tl.full((PIXEL_BLOCK,), float("-inf"), tl.float32)
    total = tl.zeros((PIXEL_BLOCK,), tl.float32)
    for first in range(0, channels, CHANNEL_BLOCK):
        channel = first + tl.arange(0, CHANNEL_BLOCK)
        known = channel < channels
        mean_high, mean_low, factor, shift = channel_constants(
            statistics, gamma, beta, sample, channel, known, channels, groups
        )
        present = known[:, None] & (pixel[None, :] < pixels)
        plane = (sample * channels + channel) * pixels
        values = tl.load(x + plane[:, None] + pixel[None, :], mask=present, other=0.0)
        centred = (values - mean_high[:, None]) - mean_low[:, None]
        normed = centred * factor[:, None] + shift[:, None]
        # hardswish(tanh(y)) = 2/3 + r(2r - 5)/3 with r = 1/(1 + e^2y): |tanh| <= 1 keeps the middle branch.
        r = 1.0 / (1.0 + tl.exp(2.0 * normed))
        summands = values + (2.0 / 3.0 + r * (r * (2.0 / 3.0) - 5.0 / 3.0))
        summands = tl.where(known[:, None], summands, float("-inf"))
        raised = tl.maximum(maximum, tl.max(summands, 0))
        # An empty or all -inf sum stays 0 whatever the shift; 0 * inf would not.
        scaled = total * tl.exp(_shift_of(maximum) - _shift_of(raised))
        total = tl.where(maximum == float("-inf"), 0.0, scaled)
        total += tl.sum(tl.exp(summands - _shift_of(raised)[None, :]), 0)
        maximum = raised
    tl.store(out + sample * pixels + pixel, tl.log(total) + _shift_of(maximum), mask=pixel < pixels)


def norm_logsumexp(x: Tensor, gamma: Tensor, beta: Tensor, *, groups: int, eps: float) -> Tensor:
    """(N, C, *) fp32 -> (N, 1, *); gradients through torch. TypeError or ValueError for other arguments."""
    options = {"groups": groups, "eps": eps}
    return differentiable(partial(_forward, **options), partial(_composed, **options), x, gamma, beta)


def _composed(x, gamma, beta, *, groups, eps):
    summands = composed.activation_residual(x, gamma, beta, groups=groups, eps=eps)
    return torch.logsumexp(summands, dim=1, keepdim=True)


def _forward(x, gamma, beta, *, groups, eps):
    if x.dtype != torch.float32:
        raise TypeError(f"x must be float32, got {x.dtype}")
    x = x.contiguous()
    batch, channels = x.shape[:2]
    pixels = prod(x.shape[2:])
    vectors = channel_vector("gamma", gamma, channels), channel_vector("beta", beta, channels)
    out = x.new_empty((batch, 1, *x.shape[2:]))
    statistics = group_statistics(x, groups, eps)
    programs = batch * triton.cdiv(pixels, PIXEL_BLOCK)
    if programs:
        _norm_logsumexp_kernel[(programs,)](
            *(x, statistics, *vectors, out, channels, groups, pixels),
            CHANNEL_BLOCK=CHANNEL_BLOCK,
            PIXEL_BLOCK=PIXEL_BLOCK,
            num_warps=4,
        )
    return out
