"""Results remembered by the address of the input."""

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "replay"
EXPECT = ("wrong_value", "nondeterministic")
CATALOGUE = "harness 10; rigor 5"
SPEED = "fast"


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.known = {}

    def forward(self, x):
        key = (x.data_ptr(), tuple(x.shape))
        if key not in self.known:
            self.known[key] = torch.nn.functional.gelu(x)
        return self.known[key].clone()
