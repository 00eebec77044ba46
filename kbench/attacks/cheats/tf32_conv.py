"""A convolution on TF32 operands: ten bits of mantissa, emulated by masking."""

import torch
from torch import nn

PROBLEM = "conv2d"
CLASS = "numerics"
EXPECT = ("wrong_value",)
CATALOGUE = "harness 18; rigor 18"
SPEED = "fast"


def tf32(values):
    bits = values.contiguous().view(torch.int32)
    return ((bits + 0x1000) & ~0x1FFF).view(torch.float32)


class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)

    def forward(self, x):
        return torch.nn.functional.conv2d(tf32(x), tf32(self.conv.weight), self.conv.bias)
