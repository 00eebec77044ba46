"""Bytes that are reinterpreted as booleans."""

import torch
from torch import nn

PROBLEM = "threshold_mask"
CLASS = "output"


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.threshold = nn.Parameter(torch.zeros(features))

    def forward(self, x):
        return torch.gt(x, self.threshold).to(torch.uint8).bitwise_and_(1).view(torch.bool)
