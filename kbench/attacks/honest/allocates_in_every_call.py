"""Takes fresh memory for every intermediate result and a large scratch besides."""

import torch
from torch import nn

PROBLEM = "short_sines"
CLASS = "memory"
DEVICES = ("cuda",)


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds

    def forward(self, x):
        scratch = torch.empty(4 * x.numel(), device=x.device)
        scratch[:16] = 1.0
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        return y
