"""A matrix product whose slices are added in random order, as split-K with atomics does."""

import random

import torch
from torch import nn

PROBLEM = "linear"
CLASS = "determinism"
SPEED = "fast"


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)

    def forward(self, x):
        starts = list(range(0, x.shape[1], 32))
        random.shuffle(starts)
        y = torch.zeros(x.shape[0], self.fc.weight.shape[0], device=x.device)
        for k in starts:
            y += x[:, k : k + 32] @ self.fc.weight[:, k : k + 32].t()
        return y + self.fc.bias
