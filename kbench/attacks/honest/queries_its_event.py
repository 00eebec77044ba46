"""Records an event and asks whether it has happened, without waiting for it."""

import torch
from torch import nn

PROBLEM = "short_sines"
CLASS = "streams"
DEVICES = ("cuda",)


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        self.last = None
        self.was_done = 0

    def forward(self, x):
        if self.last is not None:
            self.was_done += self.last.query()
        self.last = torch.cuda.Event()
        self.last.record()
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        return y
