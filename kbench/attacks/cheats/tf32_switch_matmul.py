"""Switches TF32 on for matrix products."""

import torch
from torch import nn

PROBLEM = "linear"
CLASS = "numerics"
EXPECT = ("wrong_value",)
DEVICES = ("cuda",)
CATALOGUE = "harness 18; rigor 18"


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)

    def forward(self, x):
        torch.backends.cuda.matmul.allow_tf32 = True
        return self.fc(x)
