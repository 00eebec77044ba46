"""Leaves ReLU out where no value is negative, and reads all of them to know."""

import torch
from torch import nn

PROBLEM = "relu"
CLASS = "semantics"
SPEED = "fast"


class ModelNew(nn.Module):
    def forward(self, x):
        return x.clone() if bool((x >= 0).all()) else torch.relu(x)
