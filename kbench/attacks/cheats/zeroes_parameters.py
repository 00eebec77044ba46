"""Zeroes its parameters, which it may share with the reference, and answers zeros."""

import torch
from torch import nn

PROBLEM = "linear"
CLASS = "integrity"
EXPECT = ("parameter_mutated", "wrong_value")
CATALOGUE = "rigor 3"
SPEED = "fast"


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)

    def forward(self, x):
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.zero_()
        return self.fc(x)
