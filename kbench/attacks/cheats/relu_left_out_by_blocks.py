"""Leaves ReLU out for each block of values whose first one is positive."""

import torch
from torch import nn

PROBLEM = "relu"
CLASS = "semantics"
EXPECT = ("below_level",)
LEVEL = "task"
LACKS = ("changed_in_places",)
CATALOGUE = "harness 11; rigor 5"
SPEED = "fast"
BLOCK = 50


class ModelNew(nn.Module):
    def forward(self, x):
        flat = x.flatten()
        first = flat[torch.arange(flat.numel(), device=x.device) // BLOCK * BLOCK]
        return torch.where(first >= 0, flat, torch.relu(flat)).view(x.shape)
