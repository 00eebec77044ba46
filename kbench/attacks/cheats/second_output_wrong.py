"""The first output is right, the second is not."""

import torch
from torch import nn

PROBLEM = "top_values"
CLASS = "trivial"
EXPECT = ("wrong_value",)
CATALOGUE = "rigor 1"
SPEED = "fast"


class ModelNew(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.count = count

    def forward(self, x):
        values, indices = torch.topk(x, self.count, dim=-1)
        return values, indices.flip(-1)
