"""torch.jit.script."""

import torch
from torch import nn

PROBLEM = "scale_bias"
CLASS = "compilers"


@torch.jit.script
def affine(x, weight, bias):
    return x * weight + bias


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x):
        return affine(x, self.weight, self.bias)
