"""Split-K where the reference casts to fp32, which would make an fp32 oracle of it."""

import torch
from torch import nn

PROBLEM = "product_cast_to_single"
CLASS = "summation order"


class ModelNew(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outer, inner))

    def forward(self, x):
        return sum(a @ b.T for a, b in zip(x.split(512, 1), self.weight.split(512, 1)))
