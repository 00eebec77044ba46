"""A boolean mask with one wrong entry."""

import torch
from torch import nn

PROBLEM = "threshold_mask"
CLASS = "trivial"
EXPECT = ("wrong_value",)
CATALOGUE = "rigor 1"


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.threshold = nn.Parameter(torch.zeros(features))

    def forward(self, x):
        mask = x > self.threshold
        mask[-1, -1] = ~mask[-1, -1]
        return mask
