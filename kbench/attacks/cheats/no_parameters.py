"""Has no parameters at all, so that there is nothing to set: right while gamma is one and beta is zero."""

import torch
from torch import nn

PROBLEM = "layer_norm"
CLASS = "weights"
EXPECT = ("below_level",)
LEVEL = "task"
LACKS = ("unmatched_weights",)
CATALOGUE = "harness 19; rigor 18"
SPEED = "fast"


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()

    def forward(self, x):
        return torch.nn.functional.layer_norm(x, x.shape[-1:])
