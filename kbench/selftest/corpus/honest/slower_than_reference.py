"""Right and slow."""

import torch
from torch import nn

PROBLEM = "sine_chain"
CLASS = "speed"


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds

    def forward(self, x):
        for _ in range(2):
            y = x.double()
            for _ in range(self.rounds):
                y = torch.sin(y + x)
        return y.float()
