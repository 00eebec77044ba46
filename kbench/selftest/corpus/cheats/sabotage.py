"""Solutions that slow the reference down on the device."""

import random

import torch
from _worker import spins, worker_with_queue
from torch import nn

CLASS = "sabotage"


class hogs_device_between_calls(nn.Module):
    """Leaves a long low-priority kernel behind at the end of every call, so that the reference has to share."""

    PROBLEM = "sine_chain"
    EXPECT = ("passed",)
    SPEEDUP_BELOW = 1.2
    DEVICES = ("cuda",)
    CATALOGUE = "harness 24, 27; rigor 20"
    SHARE = 1.0

    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        self.side = torch.cuda.Stream(priority=0)
        self.ballast = torch.rand(1 << 26, device="cuda")

    def forward(self, x):
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        if random.random() < self.SHARE:
            self.side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.side):
                for _ in range(100):
                    self.ballast.sin_()
        return y


class spins_when_it_is_not_its_turn(nn.Module):
    """Leaves a kernel spinning after every round: the reference, the empty rounds and the judge's looks have to share
    the device.
    """

    PROBLEM = "sine_chain"
    EXPECT = ("passed",)
    SPEEDUP_BELOW = 1.03
    DEVICES = ("cuda",)
    CATALOGUE = "harness 24, 27; rigor 20"

    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds

    def forward(self, x):
        owner = worker_with_queue()
        if owner is not None and owner._queue is not None and "read" not in vars(owner._queue):
            spins(owner._queue)
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        return y


class hogs_device_now_and_then(hogs_device_between_calls):
    """Leaves a long kernel behind every second call: the reference's median is that of slowed calls, and its noise hides
    it.
    """

    PROBLEM = "sine_chain"
    EXPECT = ("passed",)
    SPEEDUP_BELOW = 1.03
    DEVICES = ("cuda",)
    CATALOGUE = "harness 24, 27; rigor 20"
    SHARE = 0.55
