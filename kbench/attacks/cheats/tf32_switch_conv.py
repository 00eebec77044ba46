"""Switches TF32 on for convolutions, as torch does by default."""

import torch
from torch import nn

PROBLEM = "conv2d_wide"
CLASS = "numerics"
EXPECT = ("wrong_value",)
DEVICES = ("cuda",)
CATALOGUE = "harness 18; rigor 18"
SPEED = "fast"


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3)

    def forward(self, x):
        torch.backends.cudnn.allow_tf32 = True
        return self.conv(x)
