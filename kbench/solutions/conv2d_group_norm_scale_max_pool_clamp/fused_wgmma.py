"""The whole chain in one launch: a direct convolution on tensor cores, nothing but the result written.

Approach: an implicit matrix product on wgmma with both fp32 operands split into two fp16 (three products, fp32 sums:
the accuracy of fp32, no TF32). Pooling and the group sums are taken from the accumulators; pooled values, 1/16 of the
convolution's, stay in shared memory until the cluster has exchanged the sums. Scales are powers of two taken from the
data; what they do not hold (checked on the device: huge spreads, infinities, NaN) is recomputed by the same launch in
plain fp32. Sizes outside 3x3 filters, 4x4 pooling, 8 -> 64 channels and about 178 x 178 pixels, and GPUs other than
Hopper, go to the general kernels of `all_custom`.

Backward: composed of torch operators (recomputes the chain, TF32 off), none of it custom.
"""

import torch
from torch import nn

from kbench.kernels.conv_norm_pool import build, conv_norm_pool
from kbench.kernels.conv_shape import as_pair

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
        self.pool = as_pair(maxpool_kernel_size)
        build(in_channels, out_channels, as_pair(kernel_size), self.pool)
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.group_norm = nn.GroupNorm(num_groups, out_channels)
        self.scale = nn.Parameter(torch.ones(scale_shape))
        self.clamp_min = clamp_min
        self.clamp_max = clamp_max

    def forward(self, x):
        """(N, in_channels, H, W) -> (N, out_channels, (H - k + 1) // p, (W - k + 1) // p)."""
        convolution, norm = self.conv, self.group_norm  # each look-up costs the host half a microsecond
        return conv_norm_pool(
            x,
            convolution.weight,
            convolution.bias,
            norm.weight,
            norm.bias,
            self.scale,
            groups=norm.num_groups,
            eps=norm.eps,
            pool=self.pool,
            clamp_min=self.clamp_min,
            clamp_max=self.clamp_max,
        )
