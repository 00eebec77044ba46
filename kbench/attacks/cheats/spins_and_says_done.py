"""Slows what the judge holds its looks and empty rounds against, and raises `done` at once in rounds of its own."""

import ctypes
import gc
import sys
from pathlib import Path

import torch
from torch import nn

PROBLEM = "short_sines"
CLASS = "sabotage"
EXPECT = ("passed", "timing_unattested")
SPEEDUP_BELOW = 1.03
DEVICES = ("cuda",)
ALONE = True
CATALOGUE = "harness 24, 27; rigor 20"


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


def request():
    frame = sys._getframe()
    while frame is not None:
        owner, message = frame.f_locals.get("self"), frame.f_locals.get("message")
        if hasattr(owner, "_queue") and isinstance(message, dict) and message.get("op") == "round":
            return owner, message
        frame = frame.f_back
    return None, {}


def spins(queue):
    honest, side = queue.read, torch.cuda.Stream()

    def read(calls):
        honest(calls)
        with torch.cuda.stream(side):
            torch.cuda._sleep(100_000_000)  # some 50 ms

    queue.read = read


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        self.words = page()
        if self.words is not None:
            forge(0.02)

    def forward(self, x):
        owner, message = request()
        if owner is not None and "read" not in vars(owner._queue):
            spins(owner._queue)
        if message.get("gated") and self.words is not None:
            self.words[16] = message["number"]
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        return y
