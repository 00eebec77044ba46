"""The product as an einsum over a reshaped weight."""

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
        return torch.einsum("bi,oi->bo", x, self.fc.weight).add_(self.fc.bias)
