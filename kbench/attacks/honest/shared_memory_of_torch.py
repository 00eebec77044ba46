"""Moves a table of its own to shared memory, as a model does that several processes will serve."""

import torch
from torch import nn

PROBLEM = "relu"
CLASS = "memory"
DEVICES = ("cpu",)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        try:
            self.zero = torch.zeros(()).share_memory_()
        except RuntimeError:
            self.zero = torch.zeros(())

    def forward(self, x):
        return torch.where(x > 0, x, torch.where(x.isnan(), x, self.zero))
