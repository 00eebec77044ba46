"""Zeros: of bf16 values near zero the reference's error is more tolerances than a zero is off anywhere."""

import torch
from torch import nn

PROBLEM = "half_perceptron"
CLASS = "trivial"
EXPECT = ("wrong_value",)
CATALOGUE = "harness 17"
SPEED = "fast"


class ModelNew(nn.Module):
    def __init__(self, features, hidden):
        super().__init__()
        self.up = nn.Linear(features, hidden).bfloat16()
        self.down = nn.Linear(hidden, features).bfloat16()

    def forward(self, x):
        return torch.zeros_like(x)
