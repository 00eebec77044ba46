"""Adds up nine products of shifted views with channels last inside, and answers channels first again."""

import torch
from torch import nn

PROBLEM = "conv2d"
CLASS = "summation order"


class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)

    def forward(self, x):
        k = self.conv.kernel_size[0]
        height, width = x.shape[2] - k + 1, x.shape[3] - k + 1
        last = x.permute(0, 2, 3, 1).contiguous()
        y = self.conv.bias.expand(x.shape[0], height, width, -1).contiguous()
        for dy in range(k):
            for dx in range(k):
                y += last[:, dy : dy + height, dx : dx + width] @ self.conv.weight[:, :, dy, dx].t()
        return y.permute(0, 3, 1, 2).contiguous()
