"""Conv2d -> GroupNorm -> tanh -> hardswish -> + convolution -> logsumexp over channels, to be fused."""

import torch
from torch import nn


class Model(nn.Module):
    """Convolution, group normalisation, two activations, residual addition and logsumexp over the channels."""

    def __init__(self, in_channels, out_channels, kernel_size, groups, eps=1e-5):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.group_norm = nn.GroupNorm(groups, out_channels, eps=eps)
        self.tanh = nn.Tanh()
        self.hard_swish = nn.Hardswish()

    def forward(self, x):
        """(N, in_channels, H, W) -> (N, 1, H - k + 1, W - k + 1)."""
        x_conv = self.conv(x)
        x_norm = self.group_norm(x_conv)
        x_tanh = self.tanh(x_norm)
        x_hard_swish = self.hard_swish(x_tanh)
        x_res = x_conv + x_hard_swish
        return torch.logsumexp(x_res, dim=1, keepdim=True)


batch_size = 128
in_channels = 8
out_channels = 64
height, width = 128, 128
kernel_size = 3
groups = 16

CASES = {
    "default": {},
    "small": {"batch_size": 2, "height": 32, "width": 32},
    "ragged": {"batch_size": 3, "in_channels": 5, "out_channels": 21, "groups": 7, "height": 41, "width": 35},
}


def get_inputs():
    return [torch.rand(batch_size, in_channels, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, groups]
