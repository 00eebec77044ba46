"""Group statistics in Triton: mean and 1/standard deviation of every (sample, group), in one read."""

from math import prod

import torch
import triton
import triton.language as tl
from torch import Tensor

from kbench.kernels.conv_shape import check_group_size

BLOCK = 16384  # of 2048 to 16384, the fastest on an H200


@triton.jit
def _statistics_kernel(x, statistics, length, eps, BLOCK: tl.constexpr):
    """One program per group: a block's mean, then its deviations; blocks merge in fp64 (Chan et al.)."""
    group = tl.program_id(0).to(tl.int64)
    source = x + group * length
    lanes = tl.arange(0, BLOCK)
    count = tl.zeros((), tl.float64)
    mean = tl.zeros((), tl.float64)
    squares = tl.zeros((), tl.float64)
    for start in range(0, length, BLOCK):
        present = start + lanes < length
        values = tl.load(source + start + lanes, mask=present, other=0.0)
        block_count = tl.minimum(length - start, BLOCK).to(tl.float32)
        centre = tl.sum(values, 0) / block_count
        deviations = tl.where(present, values - centre, 0.0)
        # The deviations' sum, zero in exact arithmetic, carries the rounding error of `centre`.
        drift = tl.sum(deviations, 0).to(tl.float64)
        block_count = block_count.to(tl.float64)
        block_mean = centre.to(tl.float64) + drift / block_count
        block_squares = tl.sum(deviations * deviations, 0).to(tl.float64) - drift * drift / block_count
        total = count + block_count
        delta = block_mean - mean
        mean += delta * (block_count / total)
        squares += block_squares + delta * delta * (count * block_count / total)
        count = total
    tl.store(statistics + group * 2, mean)
    tl.store(statistics + group * 2 + 1, 1.0 / tl.sqrt(squares / count + eps))


def group_statistics(x: Tensor, groups: int, eps: float) -> Tensor:
    """(N, C, *) contiguous fp32 -> (N, groups, 2) fp64: mean, then 1 / sqrt(biased variance + eps).

    ValueError where `groups` does not divide C or there is but one value.
    """
    batch, channels = x.shape[:2]
    if groups < 1 or channels % groups:
        raise ValueError(f"{channels} channels cannot be split into {groups} groups")
    length = channels // groups * prod(x.shape[2:])
    check_group_size(batch, length)
    statistics = x.new_empty((batch, groups, 2), dtype=torch.float64)
    if batch:
        _statistics_kernel[(batch * groups,)](x, statistics, length, eps, BLOCK=BLOCK, num_warps=8)
    return statistics


@triton.jit
def channel_constants(statistics, gamma, beta, sample, channel, present, channels, groups):
    """Mean in two fp32 parts, factor and beta of each channel of a sample; absent ones get zeros."""
    group = sample * groups + channel // (channels // groups)
    mean = tl.load(statistics + group * 2, mask=present, other=0.0)
    inverse_std = tl.load(statistics + group * 2 + 1, mask=present, other=0.0)
    mean_high = mean.to(tl.float32)
    mean_low = (mean - mean_high.to(tl.float64)).to(tl.float32)
    factor = (inverse_std * tl.load(gamma + channel, mask=present, other=0.0).to(tl.float64)).to(tl.float32)
    return mean_high, mean_low, factor, tl.load(beta + channel, mask=present, other=0.0)
