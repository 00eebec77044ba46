"""Answers rightly and nudges a weight afterwards."""

import torch
from torch import nn

PROBLEM = "linear"
CLASS = "integrity"
EXPECT = ("parameter_mutated", "wrong_value", "nondeterministic")
CATALOGUE = "rigor 3"


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)

    def forward(self, x):
        y = self.fc(x)
        with torch.no_grad():
            self.fc.weight[0, 0] += 0.5
        return y
