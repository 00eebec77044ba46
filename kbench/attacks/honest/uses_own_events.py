"""Times itself with events, at its first call, and takes note of the result."""

import torch
from torch import nn

PROBLEM = "sine_chain"
CLASS = "manners"
DEVICES = ("cuda",)


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        self.first_ms = None

    def forward(self, x):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        end.record()
        if self.first_ms is None:
            end.synchronize()
            self.first_ms = start.elapsed_time(end)
        return y
