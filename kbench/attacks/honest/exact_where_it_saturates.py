"""Takes the GELU of saturated sums by erfc, and the product by parts."""

import torch
from torch import nn

PROBLEM = "saturated_gelu"
CLASS = "weights"
LEVEL = "general"


class ModelNew(nn.Module):
    def __init__(self, features, width):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(features, width) / features**0.5)
        self.shift = nn.Parameter(1.0 + torch.rand(width))
        self.bias = nn.Parameter(torch.randn(features))

    def forward(self, x):
        half = self.weight.shape[0] // 2
        products = x[:, half:] @ self.weight[half:] + x[:, :half] @ self.weight[:half]
        sums = -(products + self.shift).abs().sum(-1, keepdim=True)
        return 0.5 * sums * torch.special.erfc(-sums * 0.5**0.5) + self.bias
