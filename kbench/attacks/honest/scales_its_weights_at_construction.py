"""Scales its weights when it is constructed, under the reference's names: copied over, they would be wrong."""

import torch
from torch import nn

PROBLEM = "linear"
CLASS = "levels"
EXPECT = ("below_level",)
LEVEL = "task"
LACKS = ("frozen_weights",)
SPEED = "fast"


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)
        with torch.no_grad():
            self.fc.weight *= 2
            self.fc.bias *= 2

    def forward(self, x):
        return 0.5 * self.fc(x)
