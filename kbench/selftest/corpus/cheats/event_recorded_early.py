"""Records the event of a round's end at its beginning and ignores the later request to record it."""

import sys

import torch
from torch import nn

PROBLEM = "sine_chain"
CLASS = "events"
EXPECT = ("passed",)
SPEEDUP_BELOW = 1.03
DEVICES = ("cuda",)
CATALOGUE = "harness 4; rigor 10"

events = sys.modules.get("kbench.devices.cuda_driver")
recorded = set()

if events is not None:
    honest = events.DeviceEvent.record

    def record(self, stream):
        if id(self) not in recorded:
            honest(self, stream)
        recorded.discard(id(self))

    events.DeviceEvent.record = record


def marks_of_this_round():
    frame = sys._getframe()
    while frame is not None:
        queue = getattr(frame.f_locals.get("self"), "_queue", None)
        if hasattr(queue, "_marks"):
            return queue._marks
        frame = frame.f_back
    return ()


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds

    def forward(self, x):
        for event in marks_of_this_round()[1:]:
            if id(event) not in recorded:
                honest(event, torch.cuda.current_stream().cuda_stream)
                recorded.add(id(event))
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        return y
