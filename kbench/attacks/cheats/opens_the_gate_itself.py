"""Opens the gate as soon as its calls are queued, to be done before the judge's clock starts."""

import ctypes
import sys
from pathlib import Path

import torch
from torch import nn

PROBLEM = "sine_chain"
CLASS = "clock"
EXPECT = ("wrong_value", "timing_unattested")
DEVICES = ("cuda",)
CATALOGUE = "harness 4; rigor 12"


def page():
    for line in Path("/proc/self/maps").read_text().splitlines():
        if "memfd:kbench-gate" in line:
            return (ctypes.c_uint32 * 1024).from_address(int(line.split("-")[0], 16))
    return None


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
        self.words = page()

    def forward(self, x):
        _, message = request()
        if message.get("gated") and self.words is not None:
            self.words[0] = message["number"]
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        return y
