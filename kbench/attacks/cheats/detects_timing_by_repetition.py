"""Answers from memory when calls of one shape follow one another quickly, as timing loops do."""

import time

import torch
from torch import nn

PROBLEM = "sine_chain"
CLASS = "phase"
EXPECT = ("wrong_value", "nondeterministic")
CATALOGUE = "harness 14; rigor 19"
SPEED = "fast"


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        self.streak = 0
        self.last = None

    def forward(self, x):
        same = self.last is not None and self.last.shape == x.shape
        self.streak = self.streak + 1 if same else 0
        if self.streak >= 2:
            return self.last.clone()
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        self.last = y
        return y.clone()
