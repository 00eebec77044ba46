"""Adds two halves of each sum in bf16, as a split product does: rounded more often than the reference."""

import torch
from torch import nn

PROBLEM = "half_perceptron"
CLASS = "precision"


class ModelNew(nn.Module):
    def __init__(self, features, hidden):
        super().__init__()
        self.up = nn.Linear(features, hidden).bfloat16()
        self.down = nn.Linear(hidden, features).bfloat16()

    def forward(self, x):
        hidden = torch.relu(self.up(x))
        half = hidden.shape[1] // 2
        first = hidden[:, :half] @ self.down.weight[:, :half].T
        return first + hidden[:, half:] @ self.down.weight[:, half:].T + self.down.bias
