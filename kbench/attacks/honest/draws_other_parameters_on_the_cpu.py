"""Draws its parameters where no device context reaches, and registers more of them than the reference has."""

import math

import torch
from torch import nn

PROBLEM = "linear"
CLASS = "levels"
EXPECT = ("below_level",)
LEVEL = "task"
LACKS = ("unmatched_weights",)
SPEED = "fast"


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.Tensor(outputs, inputs))
        self.bias = nn.Parameter(torch.Tensor(outputs))
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        nn.init.uniform_(self.bias, -1 / math.sqrt(inputs), 1 / math.sqrt(inputs))
        self.transposed = nn.Parameter(self.weight.t(), requires_grad=False)

    def forward(self, x):
        return torch.addmm(self.bias, x, self.transposed)
