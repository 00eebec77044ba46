"""Spreads its input with zeros and runs a plain convolution over it."""

import torch
from torch import nn

PROBLEM = "conv_transpose"
CLASS = "summation order"


class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size):
        super().__init__()
        self.up = nn.ConvTranspose2d(in_channels, out_channels, kernel_size, stride=2)

    def forward(self, x):
        k = self.up.kernel_size[0]
        spread = torch.zeros(*x.shape[:2], 2 * x.shape[2] - 1, 2 * x.shape[3] - 1, device=x.device)
        spread[:, :, ::2, ::2] = x
        weight = self.up.weight.flip(2, 3).transpose(0, 1)
        return torch.nn.functional.conv2d(spread, weight, self.up.bias, padding=k - 1)
