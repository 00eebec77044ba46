"""Answers rightly, then changes one value of the input."""

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "integrity"
EXPECT = ("input_mutated",)
CATALOGUE = "harness 8; rigor 3"


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.nn.functional.gelu(x)
        x.view(-1)[x.numel() // 3] += 1.0
        return y
