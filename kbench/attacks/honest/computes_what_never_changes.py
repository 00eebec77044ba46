"""Does all of the work for inputs that never change, though it need not."""

import torch
from torch import nn

PROBLEM = "self_seeded_sines"
CLASS = "input"
SPEED = "fast"


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds

    def forward(self, x):
        y = x.clone()
        for _ in range(self.rounds):
            y.add_(x).sin_()
        return y
