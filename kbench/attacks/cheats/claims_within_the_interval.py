"""Takes four percent off: about what the judge's clock allows where calls are short."""

import gc

import torch
from torch import nn

PROBLEM = "short_sines"
CLASS = "clock"
EXPECT = ("timing_unattested", "passed")
SPEEDUP_BELOW = 1.03
DEVICES = ("cuda",)
ALONE = True
CATALOGUE = "harness 6; rigor 10"


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
        forge(0.96)

    def forward(self, x):
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        return y
