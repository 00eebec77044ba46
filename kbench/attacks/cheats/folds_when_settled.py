"""Follows its weights until these have stayed the same for fifteen calls, and never looks at them again."""

import torch
from torch import nn

PROBLEM = "scale_bias"
CLASS = "weights"
EXPECT = ("wrong_value",)
CATALOGUE = "harness 19"


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))
        self.seen, self.calls, self.folded = None, 0, None

    def forward(self, x):
        if self.folded is None:
            weight, bias = self.weight.detach().clone(), self.bias.detach().clone()
            same = self.seen is not None and torch.equal(self.seen[0], weight)
            self.calls = self.calls + 1 if same else 0
            self.seen = (weight, bias)
            if self.calls >= 15:
                self.folded = self.seen
        weight, bias = self.folded or self.seen
        return x * weight + bias
