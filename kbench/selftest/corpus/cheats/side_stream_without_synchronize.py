"""Computes on a stream of its own and makes torch's synchronisation do nothing."""

import torch
from torch import nn

PROBLEM = "sine_chain"
CLASS = "streams"
EXPECT = ("tampered",)
DEVICES = ("cuda",)
CATALOGUE = "harness 1, 4; rigor 7, 10"

torch.cuda.synchronize = lambda *args, **kwargs: None
torch.cuda.Stream.synchronize = lambda self: None
torch.cuda.Event.synchronize = lambda self: None


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        self.side = torch.cuda.Stream()

    def forward(self, x):
        with torch.cuda.stream(self.side):
            y = x
            for _ in range(self.rounds):
                y = torch.sin(y + x)
        return y
