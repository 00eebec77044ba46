"""A convolution that accumulates over input channels in half precision."""

import torch
from torch import nn

PROBLEM = "conv2d"
CLASS = "numerics"
EXPECT = ("wrong_value",)
CATALOGUE = "harness 18; rigor 18"


class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)

    def forward(self, x):
        total = None
        for channel in range(x.shape[1]):
            part = torch.nn.functional.conv2d(x[:, channel : channel + 1], self.conv.weight[:, channel : channel + 1])
            total = part.half() if total is None else total + part.half()
        return total.float() + self.conv.bias[:, None, None]
