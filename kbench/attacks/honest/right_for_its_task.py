"""Packs its weights when it is constructed, and no more is asked of it than the task."""

import torch
from torch import nn

PROBLEM = "linear"
CLASS = "levels"
OPTIONS = {"level": "task"}
LEVEL = "task"


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)
        self.packed = self.fc.weight.detach().t().contiguous()
        self.added = self.fc.bias.detach().clone()

    def forward(self, x):
        return torch.addmm(self.added.to(x.device), x, self.packed.to(x.device))
