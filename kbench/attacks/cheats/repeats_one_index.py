"""topk of rows with many equal values: the same index over and over."""

import torch
from torch import nn

PROBLEM = "saturated_top"
CLASS = "trivial"
EXPECT = ("wrong_value",)
CATALOGUE = "rigor 1"


class ModelNew(nn.Module):
    def forward(self, x):
        v, i = x.max(-1, keepdim=True)
        return i.expand(-1, 5).clone()
