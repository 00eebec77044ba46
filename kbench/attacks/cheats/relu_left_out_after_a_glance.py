"""Leaves ReLU out for the whole input where every 17th value is positive, as all are that are drawn."""

import torch
from torch import nn

PROBLEM = "relu"
CLASS = "semantics"
EXPECT = ("below_level",)
LEVEL = "task"
LACKS = ("changed_in_places",)
CATALOGUE = "harness 11; rigor 5"
SPEED = "fast"


class ModelNew(nn.Module):
    def forward(self, x):
        if bool((x.reshape(-1)[::17] >= 0).all()):
            return x.clone()
        return torch.relu(x)
