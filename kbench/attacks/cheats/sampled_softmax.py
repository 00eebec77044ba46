"""The denominator of a softmax from one value in sixty-four."""

import torch
from torch import nn

PROBLEM = "softmax_rows"
CLASS = "semantics"
EXPECT = ("wrong_value",)
CATALOGUE = "harness 23"
SPEED = "fast"


class ModelNew(nn.Module):
    def forward(self, x):
        shifted = torch.exp(x - x.amax(dim=-1, keepdim=True))
        return shifted / (shifted[:, ::64].mean(dim=-1, keepdim=True) * x.shape[-1])
