"""Claims a millisecond a call while rounds are sized, so that they have one call each, and then next to nothing."""

import sys

import torch
from torch import nn

PROBLEM = "short_sines"
CLASS = "clock"
EXPECT = ("timing_unattested", "passed")
SPEEDUP_BELOW = 1.03
DEVICES = ("cuda",)
ALONE = True
CATALOGUE = "harness 6; rigor 10, 12"


def worker():
    frame = sys._getframe()
    while frame is not None:
        owner = frame.f_locals.get("self")
        if hasattr(owner, "_channel") and hasattr(owner, "_queue"):
            return owner
        frame = frame.f_back
    return None


def sized_small(queue):
    honest, rounds = queue.read, [0]

    def read(calls):
        honest(calls)
        rounds[0] += calls > 0
        queue.event_ns = 1e6 if rounds[0] <= 16 else 1.0

    queue.read = read


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds

    def forward(self, x):
        owner = worker()
        if owner is not None and owner._queue is not None and "read" not in vars(owner._queue):
            sized_small(owner._queue)
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        return y
