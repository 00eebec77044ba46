"""Every operator a kernel of ours: im2col, tiled matrix product with bias, GroupNorm, scale, max-pool, clamp.

The columns are made for a bounded number of samples at a time; the matrix product has 64 x 128 tiles with
8 x 8 results a thread, in fp32 FMA. No torch operator computes in the forward.
Backward: composed of torch operators.
"""

import torch
from torch import nn

from kbench.kernels.conv_norm_pool_general import build, conv_norm_pool_general
from kbench.kernels.conv_shape import as_pair

DEVICES = ("cuda",)

build()


class ModelNew(nn.Module):
    """Same parameters as the reference Model."""

    def __init__(
        self,
        in_channels,
        out_channels,
        kernel_size,
        num_groups,
        scale_shape,
        maxpool_kernel_size,
        clamp_min,
        clamp_max,
    ):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.group_norm = nn.GroupNorm(num_groups, out_channels)
        self.scale = nn.Parameter(torch.ones(scale_shape))
        self.pool = as_pair(maxpool_kernel_size)
        self.clamp_min = clamp_min
        self.clamp_max = clamp_max

    def forward(self, x):
        """(N, in_channels, H, W) -> (N, out_channels, (H - k + 1) // p, (W - k + 1) // p)."""
        return conv_norm_pool_general(
            x,
            self.conv.weight,
            self.conv.bias,
            self.group_norm.weight,
            self.group_norm.bias,
            self.scale,
            groups=self.group_norm.num_groups,
            eps=self.group_norm.eps,
            pool=self.pool,
            clamp_min=self.clamp_min,
            clamp_max=self.clamp_max,
        )
