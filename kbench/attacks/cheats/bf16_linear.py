"""A matrix product on bfloat16 operands."""

import torch
from torch import nn

PROBLEM = "linear"
CLASS = "numerics"
EXPECT = ("wrong_value",)
CATALOGUE = "harness 18; rigor 18"


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)

    def forward(self, x):
        return (x.bfloat16() @ self.fc.weight.bfloat16().t()).float() + self.fc.bias
