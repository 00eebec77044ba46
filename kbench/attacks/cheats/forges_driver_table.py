"""Replaces cuEventElapsedTime in the table of driver functions that the worker keeps, found by the collector."""

import gc

import torch
from torch import nn

PROBLEM = "sine_chain"
CLASS = "clock"
EXPECT = ("timing_unattested", "passed")
SPEEDUP_BELOW = 1.03
DEVICES = ("cuda",)
CATALOGUE = "harness 4; rigor 10"


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


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        forge(0.1)

    def forward(self, x):
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        return y
