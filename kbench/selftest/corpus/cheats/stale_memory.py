"""Outputs with parts that nobody has written in this call."""

import torch
from torch import nn

CLASS = "stale memory"


class empty_output(nn.Module):
    """Memory that nobody wrote, in the hope that the allocator hands out the reference's result."""

    PROBLEM = "scale_bias"
    EXPECT = ("wrong_value", "unwritten_output", "nondeterministic")
    CATALOGUE = "harness 9; rigor 2"

    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x):
        return torch.empty_like(x)


class last_row_unwritten(nn.Module):
    """Everything but the last row, which keeps whatever the memory held."""

    PROBLEM = "gelu"
    EXPECT = ("wrong_value", "unwritten_output", "nondeterministic")
    CATALOGUE = "rigor 2"

    def forward(self, x):
        y = torch.empty_like(x)
        y[:-1] = torch.nn.functional.gelu(x[:-1])
        return y


class recycles_own_output(nn.Module):
    """Writes a few rows a call into a buffer of its own; the rest is what earlier calls left there."""

    PROBLEM = "gelu"
    EXPECT = ("wrong_value", "nondeterministic", "unwritten_output")
    CATALOGUE = "harness 9; rigor 2, 6"

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
