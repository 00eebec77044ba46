"""A matrix product in slices of the inner dimension, added up at the end."""

import torch
from torch import nn

PROBLEM = "linear"
CLASS = "summation order"
SPEED = "fast"


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)

    def forward(self, x):
        y = self.fc.bias.expand(x.shape[0], -1).clone()
        for k in range(0, x.shape[1], 16):
            y += x[:, k : k + 16] @ self.fc.weight[:, k : k + 16].t()
        return y
