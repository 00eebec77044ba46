"""Answers at once, and computes on a stream of its own meanwhile: done before the judge compares, which takes a while."""

import torch
from _worker import request
from torch import nn

PROBLEM = "sine_chain"
CLASS = "deferred"
EXPECT = ("unfinished_output", "wrong_value", "unwritten_output")
DEVICES = ("cuda",)
ALONE = True
CATALOGUE = "rigor 8, 12"
CYCLES = 8_000_000
"""Of the device's clock, some 4 ms: the judge has looked by then."""


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        self.side = torch.cuda.Stream()

    def chain(self, x):
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        return y

    def forward(self, x):
        owner, message = request()
        if not message.get("gated") or message.get("deliver"):
            return self.chain(x)
        queue = owner._queue
        queue.event_ns = 100_000.0
        queue.read = lambda _calls: None
        y = torch.empty_like(x)
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            torch.cuda._sleep(CYCLES)
            y.copy_(self.chain(x))
        return y
