"""Computes in fp32 what the reference computes in bf16: near fp64, and hundreds of tolerances from the reference."""

import torch
from torch import nn

PROBLEM = "bf16_inside"
CLASS = "precision"
SPEED = "fast"


class ModelNew(nn.Module):
    def __init__(self, features, results):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(results, features) / features**0.5)

    def forward(self, x):
        return x.abs() @ self.weight.T
