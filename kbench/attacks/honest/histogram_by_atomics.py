"""Adds ones at random places; the order differs from run to run and integers do not care."""

import torch
from torch import nn

PROBLEM = "histogram"
CLASS = "determinism"


class ModelNew(nn.Module):
    def __init__(self, bins):
        super().__init__()
        self.bins = bins

    def forward(self, values):
        rows = torch.arange(values.shape[0], device=values.device)[:, None]
        flat = (rows * self.bins + values).flatten()
        counts = torch.zeros(values.shape[0] * self.bins, dtype=torch.int32, device=values.device)
        counts.index_add_(0, flat, torch.ones_like(flat, dtype=torch.int32))
        return counts.view(values.shape[0], self.bins).long()
