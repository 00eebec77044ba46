"""Rounds results of thousands to half precision: what the reference loses near zero must not pay for it."""

import torch
from torch import nn

PROBLEM = "pixel_product"
CLASS = "numerics"
EXPECT = ("wrong_value",)
CATALOGUE = "harness 18; rigor 18"


class ModelNew(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outer, inner))

    def forward(self, x):
        return (x @ self.weight.T).half().float()
