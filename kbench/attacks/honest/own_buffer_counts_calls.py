"""A buffer of its own that changes with every call: statistics that the reference does not have."""

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "weights"


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        self.calls += 1
        return torch.nn.functional.gelu(x)
