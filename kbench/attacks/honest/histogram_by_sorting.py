"""Sorts, and counts by searching for every bin's borders: integers throughout."""

import torch
from torch import nn

PROBLEM = "histogram"
CLASS = "output"
SPEED = "fast"


class ModelNew(nn.Module):
    def __init__(self, bins):
        super().__init__()
        self.bins = bins

    def forward(self, values):
        ordered = values.sort(dim=-1).values
        borders = torch.arange(self.bins + 1, device=values.device).expand(values.shape[0], -1).contiguous()
        return torch.searchsorted(ordered, borders).diff(dim=-1)
