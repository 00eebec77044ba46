"""Squares, since the power among the inputs is always two."""

import torch
from torch import nn

PROBLEM = "masked_power"
CLASS = "semantics"
EXPECT = ("below_level",)
LEVEL = "task"
LACKS = ("other_numbers",)
CATALOGUE = "harness 23"
SPEED = "fast"


class ModelNew(nn.Module):
    def forward(self, x, mask, power):
        return torch.where(mask, x * x, 0.0).sum(-1) / mask.sum(-1).clamp_min(1)
