"""torch convolution, then Triton: a statistics kernel, and one kernel from normalisation to clamped maximum.

The convolution's output is read twice and never written again: normalise, scale, max-pool and clamp happen on
the way to the output, which is 16 times smaller. The convolution runs with TF32 off.
Backward: composed of torch operators.
"""

import torch
from torch import nn

from kbench.kernels.conv_shape import as_pair
from kbench.kernels.convolution import torch_convolution
from kbench.kernels.triton_norm_pool import norm_pool

DEVICES = ("cuda",)


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
        return norm_pool(
            torch_convolution(x, self.conv.weight, self.conv.bias),
            self.group_norm.weight,
            self.group_norm.bias,
            self.scale,
            groups=self.group_norm.num_groups,
            eps=self.group_norm.eps,
            pool=self.pool,
            clamp_min=self.clamp_min,
            clamp_max=self.clamp_max,
        )
