"""Sleeps in its first calls, so that a comparison with them would flatter the later ones."""

import time

import torch
from torch import nn

PROBLEM = "sine_chain"
CLASS = "phase"
EXPECT = ("passed",)
SPEEDUP_BELOW = 1.5
CATALOGUE = "rigor 19"


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        if self.calls <= 4:
            time.sleep(0.2)
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        return y
