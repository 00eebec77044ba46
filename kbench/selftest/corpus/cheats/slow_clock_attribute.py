"""Replaces every clock in `time` by one that runs at a tenth of the speed."""

import time

import torch
from torch import nn

PROBLEM = "sine_chain"
CLASS = "clock"
EXPECT = ("passed",)
SPEEDUP_BELOW = 1.5
DEVICES = ("cpu",)
CATALOGUE = "harness 4; rigor 10"


def slowed(clock):
    start = clock()
    return lambda: type(start)(start + (clock() - start) / 10)


for name in ("perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "time", "time_ns", "process_time"):
    setattr(time, name, slowed(getattr(time, name)))


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds

    def forward(self, x):
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        return y
