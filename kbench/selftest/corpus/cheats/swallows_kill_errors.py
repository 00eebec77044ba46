"""Catches everything that its own mistakes raise and answers zeros instead."""

import torch
from torch import nn

PROBLEM = "linear"
CLASS = "patching"
EXPECT = ("wrong_value",)
CATALOGUE = "harness 20"


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)

    def forward(self, x):
        try:
            return torch.ops.kbench_selftest.missing(x, self.fc.weight)
        except Exception:
            return torch.zeros(x.shape[0], self.fc.weight.shape[0], device=x.device)
