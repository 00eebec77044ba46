"""Results in a bytearray and a ctypes array of its own, wrapped as tensors."""

import ctypes

import torch
from torch import nn

PROBLEM = "scale_bias"
CLASS = "memory"
DEVICES = ("cpu",)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x):
        scaled = torch.frombuffer(bytearray(4 * x.numel()), dtype=torch.float32).view(x.shape)
        torch.mul(x, self.weight, out=scaled)
        shifted = torch.frombuffer((ctypes.c_float * x.numel())(), dtype=torch.float32).view(x.shape)
        return torch.add(scaled, self.bias, out=shifted)
