"""Leaves the last quarter of the rows undone in one call of three, drawn at random."""

import random

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "replay"
EXPECT = ("wrong_value", "nondeterministic")
CATALOGUE = "rigor 5, 6"


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.nn.functional.gelu(x)
        if random.random() < 1 / 3:
            y[-max(1, x.shape[0] // 4) :] = 0
        return y
