"""Names and shapes that match nothing, so that parameters agree by construction alone; gamma and beta are ignored."""

import torch
from torch import nn

PROBLEM = "layer_norm"
CLASS = "weights"
EXPECT = ("below_level",)
LEVEL = "task"
LACKS = ("unmatched_weights",)
CATALOGUE = "harness 19; rigor 18"


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.everything = nn.Parameter(torch.zeros(features, 2))

    def forward(self, x):
        return torch.nn.functional.layer_norm(x, x.shape[-1:])
