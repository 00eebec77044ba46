"""A boolean mask."""

import torch
from torch import nn

PROBLEM = "threshold_mask"
CLASS = "output"
SPEED = "fast"


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.threshold = nn.Parameter(torch.zeros(features))

    def forward(self, x):
        return torch.logical_not(x <= self.threshold)
