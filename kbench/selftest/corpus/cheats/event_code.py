"""Exchanges the code object of Event.elapsed_time: the function keeps its identity."""

import torch
from torch import nn

PROBLEM = "sine_chain"
CLASS = "events"
EXPECT = ("passed",)
SPEEDUP_BELOW = 1.03
DEVICES = ("cuda",)
CATALOGUE = "harness 4; rigor 10"


class Donor(torch._C._CudaEventBase):
    def elapsed_time(self, end_event):
        return 0.1 * super().elapsed_time(end_event)


torch.cuda.Event.elapsed_time.__code__ = Donor.elapsed_time.__code__


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds

    def forward(self, x):
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        return y
