"""Results remembered by a few values of the input."""

import torch
from torch import nn

PROBLEM = "sine_chain"
CLASS = "replay"
EXPECT = ("wrong_value", "nondeterministic")
CATALOGUE = "harness 11; rigor 5"


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        self.known = {}

    def forward(self, x):
        key = tuple(x[:: max(1, x.numel() // 64)].tolist())
        if key not in self.known:
            y = x
            for _ in range(self.rounds):
                y = torch.sin(y + x)
            self.known[key] = y
        return self.known[key].clone()
