"""Keeps the convolution's parameters in a dictionary, under names of its own."""

import torch
from torch import nn

PROBLEM = "conv2d"
CLASS = "weights"
SPEED = "fast"


class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size):
        super().__init__()
        conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.held = nn.ParameterDict({"a_filter": conv.weight, "b_offset": conv.bias})

    def forward(self, x):
        return torch.nn.functional.conv2d(x, self.held["a_filter"], self.held["b_offset"])
