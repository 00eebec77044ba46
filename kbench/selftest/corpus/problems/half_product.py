"""A product of matrices in fp16, whose last rounding is half of the tolerance."""

import torch
from torch import nn


class Model(nn.Module):
    """x y in fp16."""

    def forward(self, x, y):
        """(64, 512), (512, 64) -> (64, 64)."""
        return x @ y


def get_inputs():
    return [torch.randn(64, 512, dtype=torch.float16), torch.randn(512, 64, dtype=torch.float16)]


def get_init_inputs():
    return []
