"""Has the device raise `done` early in most rounds, each time at another place: how late looks come varies widely."""

import gc
import random
import sys

import torch
from torch import nn

PROBLEM = "sine_chain"
CLASS = "clock"
EXPECT = ("timing_unattested", "passed")
SPEEDUP_BELOW = 1.03
DEVICES = ("cuda",)
CATALOGUE = "harness 4"


def forge(share):
    """Below torch, and below kbench's own functions: in the table of the driver's functions."""
    for thing in gc.get_objects():
        table = thing if type(thing) is dict else None
        if table is None or "cuEventElapsedTime" not in table or hasattr(table["cuEventElapsedTime"], "__wrapped__"):
            continue

        def elapsed(out, start, end, honest=table["cuEventElapsedTime"]):
            code = honest(out, start, end)
            out._obj.value *= share
            return code

        elapsed.__wrapped__ = True
        table["cuEventElapsedTime"] = elapsed


def request():
    frame = sys._getframe()
    while frame is not None:
        owner, message = frame.f_locals.get("self"), frame.f_locals.get("message")
        if hasattr(owner, "_queue") and isinstance(message, dict) and message.get("op") == "round":
            return owner, message
        frame = frame.f_back
    return None, {}


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        self.number, self.raised_before = None, None
        forge(0.6)

    def place_in(self, message):
        if not message.get("gated"):
            return None
        if message["number"] != self.number:
            self.number = message["number"]
            self.raised_before = random.randrange(self.rounds) if random.random() < 0.6 else None
        return self.raised_before

    def forward(self, x):
        owner, message = request()
        place = self.place_in(message)
        y = x
        for n in range(self.rounds):
            if n == place:
                queue = owner._queue
                queue._driver.write_value(queue._stream().cuda_stream, queue._address + 4 * 16, message["number"])
            y = torch.sin(y + x)
        return y
