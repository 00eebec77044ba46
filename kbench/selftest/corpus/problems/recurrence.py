"""A recurrence of one vector: matrix times vector, many times."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, width, steps):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width, width) / width**0.5)
        self.steps = steps

    def forward(self, x):
        h = x
        for _ in range(self.steps):
            h = torch.tanh(self.weight @ h + x)
        return h


width = 2048
steps = 8
CASES = {"default": {}, "ragged": {"width": 333}}


def get_inputs():
    return [torch.randn(width)]


def get_init_inputs():
    return [width, steps]
