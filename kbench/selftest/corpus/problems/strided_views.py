"""Inputs as views: one is broadcast (stride zero), one a window that overlaps itself, one is empty."""

import torch
from torch import nn


class Model(nn.Module):
    """windows * row, with whatever the empty tensor adds: nothing."""

    def forward(self, row, windows, nothing):
        """(count, size) with stride 0, (count, size) overlapping, (0, size) -> (count, size)."""
        return torch.cat((windows * row, nothing))


count = 40
size = 16

CASES = {"default": {}, "ragged": {"count": 5, "size": 7}}


def get_inputs():
    row = torch.randn(1, size).expand(count, size)
    return [row, torch.randn(count + size - 1).unfold(0, size, 1), torch.randn(0, size)]


def get_init_inputs():
    return []
