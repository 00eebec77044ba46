"""Writes a few rows a call into a buffer of its own; the rest is what earlier calls left there."""

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "stale memory"
EXPECT = ("wrong_value", "nondeterministic", "unwritten_output")
CATALOGUE = "harness 9; rigor 2, 6"


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.buffers_by_shape = {}
        self.turn = 0

    def forward(self, x):
        key = (tuple(x.shape), x.device)
        if key not in self.buffers_by_shape:
            self.buffers_by_shape[key] = torch.nn.functional.gelu(x)
        y = self.buffers_by_shape[key]
        self.turn += 1
        y[self.turn % 4 :: 4] = torch.nn.functional.gelu(x[self.turn % 4 :: 4])
        return y
