"""A clock that stands still: the time is zero."""

import time

import torch
from torch import nn

PROBLEM = "sine_chain"
CLASS = "clock"
EXPECT = ("passed", "protocol_error")
SPEEDUP_BELOW = 1.5
DEVICES = ("cpu",)
CATALOGUE = "harness 4, 26; rigor 10"

now = time.perf_counter_ns()
time.perf_counter_ns = lambda: now
time.perf_counter = lambda: now / 1e9


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds

    def forward(self, x):
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        return y
