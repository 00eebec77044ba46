"""A mean squared error in bf16: a mean of many terms, and a wide tolerance."""

import torch
from torch import nn


class Model(nn.Module):
    """mean((x - y)^2)."""

    def forward(self, x, y):
        """(rows, 1024), (rows, 1024) -> ()."""
        return torch.nn.functional.mse_loss(x, y)


rows = 1024


def get_inputs():
    return [torch.randn(rows, 1024, dtype=torch.bfloat16), torch.randn(rows, 1024, dtype=torch.bfloat16)]


def get_init_inputs():
    return []
