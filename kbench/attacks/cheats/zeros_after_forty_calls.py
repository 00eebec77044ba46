"""Right while it is verified; from the forty-first call on zeros, which the contract's absolute tolerance lets pass."""

import torch
from torch import nn

PROBLEM = "softmax_rows"
CLASS = "phase"
EXPECT = ("wrong_value",)
CATALOGUE = "harness 14"


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return torch.softmax(x, -1) if self.calls <= 40 else torch.zeros_like(x)
