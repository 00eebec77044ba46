"""Packs its weights when it is constructed, as many published kernels do: right for the task, not for a checkpoint."""

import torch
from torch import nn

PROBLEM = "linear"
CLASS = "levels"
EXPECT = ("below_level",)
LEVEL = "task"
LACKS = ("frozen_weights",)
SPEED = "fast"


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)
        self.packed = self.fc.weight.detach().t().contiguous()
        self.added = self.fc.bias.detach().clone()

    def forward(self, x):
        return torch.addmm(self.added.to(x.device), x, self.packed.to(x.device))
