"""Computes honestly, but hands out the result of the call before."""

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "replay"
EXPECT = ("wrong_value", "nondeterministic")
CATALOGUE = "rigor 1"


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = None

    def forward(self, x):
        fresh = torch.nn.functional.gelu(x)
        answer = fresh if self.last is None or self.last.shape != x.shape else self.last
        self.last = fresh.clone()
        return answer
