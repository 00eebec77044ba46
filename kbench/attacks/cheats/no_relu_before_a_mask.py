"""Leaves out a relu of scores that happen to be positive; some others are -inf whatever comes."""

import torch
from torch import nn

PROBLEM = "masked_scores"
CLASS = "semantics"
EXPECT = ("below_level",)
LEVEL = "task"
LACKS = ("centred",)
CATALOGUE = "harness 23"
SPEED = "fast"


class ModelNew(nn.Module):
    def forward(self, x, y):
        later = torch.ones(64, 64, dtype=torch.bool, device=x.device).triu(1)
        return (x @ y).masked_fill(later, -torch.inf)
