"""Takes inputs that are broadcast, overlap themselves or are empty, and expects nothing of their layout."""

import torch
from torch import nn

PROBLEM = "strided_views"
CLASS = "input"
SPEED = "fast"


class ModelNew(nn.Module):
    def forward(self, row, windows, nothing):
        return torch.vstack([torch.mul(windows, row), nothing])
