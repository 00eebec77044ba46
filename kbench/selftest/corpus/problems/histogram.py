"""How often every value occurs: integers in, integers out."""

import torch
from torch import nn


class Model(nn.Module):
    """torch.bincount of every row."""

    def __init__(self, bins):
        super().__init__()
        self.bins = bins

    def forward(self, values):
        """(batch, length) int64 below bins -> (batch, bins) int64."""
        counts = torch.zeros(values.shape[0], self.bins, dtype=torch.int64, device=values.device)
        return counts.scatter_add(1, values, torch.ones_like(values))


bins = 50
batch = 8
length = 700

CASES = {"default": {}, "ragged": {"bins": 7, "batch": 3, "length": 41}}


def get_inputs():
    return [torch.randint(0, bins, (batch, length))]


def get_init_inputs():
    return [bins]
