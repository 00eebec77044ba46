"""GroupNorm on the GPU in Triton: statistics per group, then normalisation; any shape.

One program per group walks through it block by block. Each block's mean and squared deviations are taken in two
passes over registers and merged into the running moments (Chan, Golub and LeVeque, 1979), so that an offset of
many standard deviations does no harm. A second kernel normalises.
"""

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

STATISTICS_BLOCK = 8192
APPLY_BLOCK = 2048


@triton.jit
def _group_statistics(x_ptr, mean_high_ptr, mean_low_ptr, rstd_ptr, group_size, eps, BLOCK: tl.constexpr):
    group = tl.program_id(0).to(tl.int64)
    offsets = tl.arange(0, BLOCK)
    count = tl.zeros((), tl.float64)
    mean = tl.zeros((), tl.float64)
    m2 = tl.zeros((), tl.float64)
    for start in range(0, group_size, BLOCK):
        inside = start + offsets < group_size
        values = tl.load(x_ptr + group * group_size + start + offsets, mask=inside, other=0.0)
        block_count = tl.minimum(group_size - start, BLOCK).to(tl.float32)
        centre = tl.sum(values) / block_count
        deviations = tl.where(inside, values - centre, 0.0)
        # The deviations' sum carries the rounding error of the centre and puts both moments right.
        drift = tl.sum(deviations).to(tl.float64)
        block_mean = centre.to(tl.float64) + drift / block_count
        block_m2 = tl.sum(deviations * deviations).to(tl.float64) - drift * drift / block_count
        total = count + block_count
        delta = block_mean - mean
        mean += delta * (block_count / total)
        m2 += block_m2 + delta * delta * count * (block_count / total)
        count = total
    mean_high = mean.to(tl.float32)
    tl.store(mean_high_ptr + group, mean_high)
    tl.store(mean_low_ptr + group, (mean - mean_high).to(tl.float32))
    tl.store(rstd_ptr + group, (1.0 / tl.sqrt(m2 / count + eps)).to(tl.float32))


@triton.jit
def _apply_statistics(  # noqa: PLR0917 (a launch passes its arguments by position)
    x_ptr, y_ptr, gamma_ptr, beta_ptr, mean_high_ptr, mean_low_ptr, rstd_ptr,
    spatial, blocks_per_row, channels, channels_per_group, BLOCK: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0).to(tl.int64)
    row = program // blocks_per_row
    offsets = (program % blocks_per_row) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < spatial
    channel = row % channels
    group = row // channels_per_group
    scale = tl.load(gamma_ptr + channel) * tl.load(rstd_ptr + group)
    shift = tl.load(beta_ptr + channel) - tl.load(mean_low_ptr + group) * scale
    values = tl.load(x_ptr + row * spatial + offsets, mask=inside)
    normalised = (values - tl.load(mean_high_ptr + group)) * scale + shift
    tl.store(y_ptr + row * spatial + offsets, normalised, mask=inside)


def forward_kernel(x: Tensor, gamma: Tensor, beta: Tensor, groups: int, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """Normalise a contiguous CUDA tensor (batch, channels, *); returns y, mean and rstd."""
    batch, channels = x.shape[:2]
    spatial = math.prod(x.shape[2:])
    channels_per_group = channels // groups
    y = x.new_empty(x.shape)
    mean_high, mean_low, rstd = x.new_empty(3, batch, groups).unbind()
    if x.numel() > 0:
        block = min(STATISTICS_BLOCK, triton.next_power_of_2(channels_per_group * spatial))
        row_block = min(APPLY_BLOCK, triton.next_power_of_2(spatial))
        blocks_per_row = triton.cdiv(spatial, row_block)
        with torch.cuda.device(x.device):
            _group_statistics[(batch * groups,)](
                x, mean_high, mean_low, rstd, channels_per_group * spatial, eps, BLOCK=block, num_warps=8
            )
            _apply_statistics[(batch * channels * blocks_per_row,)](
                x, y, gamma, beta, mean_high, mean_low, rstd, spatial, blocks_per_row, channels,
                channels_per_group, BLOCK=row_block,
            )  # fmt: skip
    return y, mean_high, rstd
