"""Division by a norm over everything, in bf16."""

import torch
from torch import nn


class Model(nn.Module):
    """x / |x|."""

    def forward(self, x):
        """(8, 16, 32, 32) -> (8, 16, 32, 32)."""
        return x / torch.norm(x, p="fro")


def get_inputs():
    return [torch.randn(8, 16, 32, 32, dtype=torch.bfloat16)]


def get_init_inputs():
    return []
