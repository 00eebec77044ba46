"""Conv2d -> GroupNorm -> scale -> MaxPool -> clamp, to be fused: compute-bound, the output is 16 times smaller."""

import torch
from torch import nn


class Model(nn.Module):
    """Convolution, group normalisation, per-channel scale, max pooling and clamp, one after the other."""

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
        self.maxpool = nn.MaxPool2d(kernel_size=maxpool_kernel_size)
        self.clamp_min = clamp_min
        self.clamp_max = clamp_max

    def forward(self, x):
        """(N, in_channels, H, W) -> (N, out_channels, (H - k + 1) // p, (W - k + 1) // p)."""
        x = self.conv(x)
        x = self.group_norm(x)
        x = x * self.scale
        x = self.maxpool(x)
        return torch.clamp(x, self.clamp_min, self.clamp_max)


batch_size = 128
in_channels = 8
out_channels = 64
height, width = 128, 128
kernel_size = 3
num_groups = 16
scale_shape = (out_channels, 1, 1)
maxpool_kernel_size = 4
clamp_min = 0.0
clamp_max = 1.0

CASES = {
    "default": {},
    "small": {"batch_size": 2, "height": 32, "width": 32},
    "ragged": {
        "batch_size": 3,
        "in_channels": 5,
        "out_channels": 21,
        "scale_shape": (21, 1, 1),
        "num_groups": 7,
        "height": 41,
        "width": 35,
        "maxpool_kernel_size": 3,
    },
}


def get_inputs():
    return [torch.rand(batch_size, in_channels, height, width)]


def get_init_inputs():
    return [
        in_channels,
        out_channels,
        kernel_size,
        num_groups,
        scale_shape,
        maxpool_kernel_size,
        clamp_min,
        clamp_max,
    ]
