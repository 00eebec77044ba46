"""A matrix product whose running sum is kept in half precision."""

import torch
from torch import nn

PROBLEM = "linear"
CLASS = "numerics"
EXPECT = ("wrong_value",)
CATALOGUE = "harness 18; rigor 18"
SPEED = "fast"


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)

    def forward(self, x):
        total = torch.zeros(x.shape[0], self.fc.weight.shape[0], dtype=torch.float16, device=x.device)
        for k in range(0, x.shape[1], 16):
            total += (x[:, k : k + 16] @ self.fc.weight[:, k : k + 16].t()).half()
        return total.float() + self.fc.bias
