"""Holds a parameter of an inner module under a name of its own, too."""

import torch
from torch import nn

PROBLEM = "linear"
CLASS = "levels"
SPEED = "fast"


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        fc = nn.Linear(inputs, outputs)
        self.shift = fc.bias
        self.fc = fc

    def forward(self, x):
        return torch.addmm(self.shift, x, self.fc.weight.t())
