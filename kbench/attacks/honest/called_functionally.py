"""Calls a copy of itself with its parameters handed in from outside, by torch.func."""

import torch
from torch import nn

PROBLEM = "linear"
CLASS = "libraries"


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)

    def forward(self, x):
        state = {name: tensor.detach() for name, tensor in self.fc.named_parameters()}
        return torch.func.functional_call(self.fc, state, (x,))
