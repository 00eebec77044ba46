"""Scales and shifts: bytes and little else."""

import torch
from torch import nn

count = 1 << 28

CASES = {"default": {}, "medium": {"count": 1 << 20}, "tiny": {"count": 1 << 12}}


class Model(nn.Module):
    def forward(self, x):
        return 3.0 * x + 1.0


def get_inputs():
    return [torch.rand(count)]


def get_init_inputs():
    return []
