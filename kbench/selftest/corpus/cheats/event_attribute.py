"""Replaces Event.elapsed_time by a tenth of itself."""

import torch
from torch import nn

PROBLEM = "sine_chain"
CLASS = "events"
EXPECT = ("passed",)
SPEEDUP_BELOW = 1.03
DEVICES = ("cuda",)
CATALOGUE = "harness 4; rigor 10"

honest = torch.cuda.Event.elapsed_time
torch.cuda.Event.elapsed_time = lambda self, end: honest(self, end) / 10


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds

    def forward(self, x):
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        return y
