"""Computes and answers in channels-last order."""

import torch
from torch import nn

PROBLEM = "conv2d"
CLASS = "output"
SPEED = "fast"


class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)

    def forward(self, x):
        return self.conv(x.to(memory_format=torch.channels_last))
