"""Folds a factor into its weights, in their place, in the first call: later calls need no product with it."""

import torch
from torch import nn

PROBLEM = "linear"
CLASS = "levels"
EXPECT = ("below_level",)
LEVEL = "task"
LACKS = ("unmatched_weights",)
SPEED = "fast"


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)
        self.is_folded = False

    def forward(self, x):
        if not self.is_folded:
            with torch.no_grad():
                self.fc.weight.data = 2 * self.fc.weight
                self.fc.bias *= 2
            self.is_folded = True
        return 0.5 * self.fc(x)
