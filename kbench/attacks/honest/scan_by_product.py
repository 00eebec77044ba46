"""Prefix sums as a product with a triangle of ones, kept in a buffer for each length."""

import torch
from torch import nn

PROBLEM = "prefix_sum"
CLASS = "summation order"


class ModelNew(nn.Module):
    def forward(self, x):
        name = f"ones_{x.shape[-1]}"
        if not hasattr(self, name):
            ones = torch.ones(x.shape[-1], x.shape[-1], dtype=torch.float64, device=x.device).triu()
            self.register_buffer(name, ones, persistent=False)
        return (x.double() @ self.get_buffer(name)).float()
