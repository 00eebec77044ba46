"""Makes short requests take as long as long ones, so that a call seems to add little time, and claims a tenth."""

import sys
import time

import torch
from torch import nn

PROBLEM = "sine_chain"
CLASS = "clock"
EXPECT = ("timing_unattested",)
DEVICES = ("cpu",)
CATALOGUE = "harness 4; rigor 10, 12"
LENGTH_S = 0.1


def padded(do_call):
    def call(message):
        started = time.monotonic()
        answer = do_call(message)
        if len(message["slots"]) <= 1:
            time.sleep(max(0.0, started + LENGTH_S - time.monotonic()))
        return {**answer, "event_ns": answer["event_ns"] // 10, "submit_ns": answer["submit_ns"] // 10}

    return call


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds

    def forward(self, x):
        frame = sys._getframe()
        while frame is not None:
            owner = frame.f_locals.get("self")
            if hasattr(owner, "do_call") and "do_call" not in vars(owner):
                owner.do_call = padded(owner.do_call)
            frame = frame.f_back
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        return y
