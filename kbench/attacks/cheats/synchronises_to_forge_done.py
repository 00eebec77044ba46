"""Waits for the device in its calls, so that plain loops must do, and says there that it is done when it is not."""

import sys

import torch
from torch import nn

PROBLEM = "sine_chain"
CLASS = "deferred"
EXPECT = ("passed", "timing_unattested", "wrong_value", "unwritten_output", "nondeterministic")
SPEEDUP_BELOW = 1.03
DEVICES = ("cuda",)
CATALOGUE = "harness 6; rigor 8, 12"


def request():
    frame = sys._getframe()
    while frame is not None:
        owner, message = frame.f_locals.get("self"), frame.f_locals.get("message")
        if hasattr(owner, "_queue") and isinstance(message, dict) and message.get("op") == "round":
            return owner, message
        frame = frame.f_back
    return None, {}


def forged(queue):
    honest = queue.read

    def read(calls):
        if calls == 0:
            return honest(calls)
        queue.event_ns = 1000.0

    queue.read = read


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds

    def forward(self, x):
        owner, message = request()
        if message.get("gated"):
            torch.cuda.current_stream().synchronize()
        elif owner is not None and "read" not in vars(owner._queue):
            forged(owner._queue)
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        return y
