"""Honest on small inputs; on large ones the identity, which is right as long as they happen to be positive."""

import torch
from torch import nn

PROBLEM = "relu"
CLASS = "semantics"
EXPECT = ("below_level", "wrong_value")
LEVEL = "task"
LACKS = ("negated",)
CATALOGUE = "harness 23; rigor 19"
SPEED = "fast"


class ModelNew(nn.Module):
    def forward(self, x):
        return x.clone() if x.numel() > 10_000 else torch.relu(x)
