"""A long product that is computed in fp32, whatever the activations are."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outer, inner))

    def forward(self, x):
        return (x.float() @ self.weight.float().T).to(x.dtype)


batch = 32
inner = 4096
outer = 128
CASES = {"default": {}, "ragged": {"batch": 7, "inner": 4001}}


def get_inputs():
    return [torch.randn(batch, inner)]


def get_init_inputs():
    return [inner, outer]
