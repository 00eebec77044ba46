"""A thread writes the gate's page: it says `done` the moment that the judge opens; events are forged to match."""

import ctypes
import gc
import threading
import time
from pathlib import Path

import torch
from torch import nn

PROBLEM = "sine_chain"
CLASS = "clock"
EXPECT = ("timing_unattested", "passed")
SPEEDUP_BELOW = 1.03
DEVICES = ("cuda",)
CATALOGUE = "harness 4; rigor 10, 12"


def page():
    for line in Path("/proc/self/maps").read_text().splitlines():
        if "memfd:kbench-gate" in line:
            return (ctypes.c_uint32 * 1024).from_address(int(line.split("-")[0], 16))
    return None


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


def answer(words):
    while True:
        words[16] = words[0]
        time.sleep(0)


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        words = page()
        if words is not None:
            forge(0.05)
            threading.Thread(target=answer, args=(words,), daemon=True).start()

    def forward(self, x):
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        return y
