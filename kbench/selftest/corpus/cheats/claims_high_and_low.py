"""Claims much and little in turn: the median of its claims is true, and that of their ratios to the reference is not."""

import json

import torch
from torch import nn

PROBLEM = "sine_chain"
CLASS = "clock"
EXPECT = ("passed",)
SPEEDUP_BELOW = 1.1
DEVICES = ("cpu",)
CATALOGUE = "harness 6; rigor 12"

honest_dumps = json.dumps
turn = 0


def dumps(value, **kwargs):
    global turn
    if isinstance(value, dict) and value.get("event_ns") and value.get("places"):
        turn += 1
        value = {**value, "event_ns": int(value["event_ns"] * (0.2, 1.82)[turn % 2])}
    return honest_dumps(value, **kwargs)


json.dumps = dumps


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds

    def forward(self, x):
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        return y
