"""One over the row length: right on average, off by less than 1e-5 everywhere."""

import torch
from torch import nn

PROBLEM = "softmax_rows"
CLASS = "trivial"
EXPECT = ("wrong_value",)
CATALOGUE = "harness 16; rigor 1"


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.full_like(x, 1.0 / x.shape[-1])
