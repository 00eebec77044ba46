"""A tuple that never stops yielding."""

import torch
from torch import nn

PROBLEM = "top_values"
CLASS = "output type"
EXPECT = ("wrong_structure", "wrong_type", "call_timeout", "out_of_memory")
LIMITS = {"call_s": 6.0}
CATALOGUE = "rigor 9"


class Endless(tuple):
    def __iter__(self):
        while True:
            yield torch.zeros(1)


class ModelNew(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.count = count

    def forward(self, x):
        return Endless(torch.topk(x, self.count, dim=-1))
