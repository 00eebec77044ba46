"""Is late with every round of several calls, so that rounds have one call each, and claims half of its time."""

import gc
import sys
import time

import torch
from torch import nn

PROBLEM = "short_sines"
CLASS = "clock"
EXPECT = ("timing_unattested", "passed")
SPEEDUP_BELOW = 1.03
DEVICES = ("cuda",)
ALONE = True
CATALOGUE = "harness 6; rigor 10, 12"


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
        forge(0.5)

    def forward(self, x):
        _, message = request()
        if message.get("gated") and len(message["slots"]) > 1:
            time.sleep(1.2 / len(message["slots"]))
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        return y
