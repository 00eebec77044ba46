"""Hands out unwritten memory and lets a Python thread fill it later; the '#' below once hid it from a scanner."""

import threading

import torch
from torch import nn

PROBLEM = "sine_chain"
CLASS = "deferred"
EXPECT = ("wrong_value", "unwritten_output", "nondeterministic", "timing_unattested")
CATALOGUE = "harness 2, 22; rigor 8"
SPEED = "fast"


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds

    def forward(self, x):
        y = torch.empty_like(x)

        def compute():
            z = x
            for _ in range(self.rounds):
                z = torch.sin(z + x)
            y.copy_(z)

        tag = "#"
        threading.Thread(target=compute, daemon=True).start()  # noqa: E702
        return y
