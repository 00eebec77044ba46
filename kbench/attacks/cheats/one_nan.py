"""One NaN where the reference is finite."""

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "non-finite"
EXPECT = ("wrong_value", "unwritten_output")
CATALOGUE = "harness 25; rigor 22"


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.nn.functional.gelu(x)
        y.view(-1)[y.numel() // 2] = float("nan")
        return y
