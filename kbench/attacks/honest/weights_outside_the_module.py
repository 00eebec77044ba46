"""Keeps its weights as plain tensors that no module knows: nothing can change them, and nothing has to."""

import torch
from torch import nn

PROBLEM = "linear"
CLASS = "weights"
EXPECT = ("below_level",)
LEVEL = "task"
LACKS = ("unmatched_weights",)


class ModelNew:
    def __init__(self, inputs, outputs):
        layer = nn.Linear(inputs, outputs)
        self.weight, self.bias = layer.weight.detach(), layer.bias.detach()

    def __call__(self, x):
        return torch.addmm(self.bias, x, self.weight.t())
