"""Records every event when the call begins and ignores later requests to record."""

import torch
from torch import nn

PROBLEM = "sine_chain"
CLASS = "events"
EXPECT = ("timing_unattested", "passed")
SPEEDUP_BELOW = 1.5
DEVICES = ("cuda",)
CATALOGUE = "harness 4; rigor 10"

honest = torch.cuda.Event.record
recorded = set()
made = []
original_new = torch.cuda.Event.__new__


def remembering_new(cls, *args, **kwargs):
    event = original_new(cls, *args, **kwargs)
    made.append(event)
    return event


def record(self, stream=None):
    if id(self) not in recorded:
        honest(self)


torch.cuda.Event.__new__ = staticmethod(remembering_new)
torch.cuda.Event.record = record


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds

    def forward(self, x):
        for event in made[-2:]:
            if id(event) not in recorded:
                honest(event)
                recorded.add(id(event))
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        return y
