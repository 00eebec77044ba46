"""Does nothing for three calls and all four calls' work in the fourth."""

import torch
from torch import nn

PROBLEM = "sine_chain"
CLASS = "deferred"
EXPECT = ("wrong_value", "unwritten_output", "nondeterministic")
CATALOGUE = "harness 13; rigor 8"
SPEED = "fast"


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        self.owed = []

    def forward(self, x):
        y = torch.empty_like(x)
        self.owed.append((x, y))
        if len(self.owed) == 4:
            for source, target in self.owed:
                z = source
                for _ in range(self.rounds):
                    z = torch.sin(z + source)
                target.copy_(z)
            self.owed = []
        return y
