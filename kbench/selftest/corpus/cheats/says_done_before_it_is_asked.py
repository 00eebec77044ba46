"""Writes the number of every round as `done` while it queues: the flag is up before the gate is open."""

import torch
from _worker import forge, page, request
from torch import nn

PROBLEM = "short_sines"
CLASS = "clock"
EXPECT = ("unfinished_output", "passed")
SPEEDUP_BELOW = 1.03
DEVICES = ("cuda",)
ALONE = True
CATALOGUE = "harness 4; rigor 10, 12"


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        self.words = page()
        if self.words is not None:
            forge(0.02)

    def forward(self, x):
        _, message = request()
        if message.get("gated") and self.words is not None:
            self.words[16] = message["number"]
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        return y
