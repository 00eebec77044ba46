"""A long product of pixels: outputs of thousands, and some near zero."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outer, inner))

    def forward(self, x):
        return x @ self.weight.T


batch = 64
inner = 4096
outer = 128
CASES = {"default": {}, "ragged": {"batch": 7, "inner": 4001}}


def get_inputs():
    return [255 * torch.rand(batch, inner)]


def get_init_inputs():
    return [inner, outer]
