"""Skips half of the rounds in the requests that time: behind the gate on a GPU, back to back on a CPU."""

import sys

import torch
from torch import nn

PROBLEM = "sine_chain"
CLASS = "phase"
EXPECT = ("wrong_value", "nondeterministic", "passed")
SPEEDUP_BELOW = 1.5
CATALOGUE = "harness 14; rigor 19"


def is_timed():
    frame = sys._getframe()
    while frame is not None:
        message = frame.f_locals.get("message")
        if isinstance(message, dict) and (message.get("poison") is False or message.get("gated")):
            return True
        if frame.f_code.co_name in {"queue_calls", "time_calls", "benchmark", "do_bench"}:
            return True
        frame = frame.f_back
    return False


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds

    def forward(self, x):
        y = x
        for _ in range(self.rounds // 2 if is_timed() else self.rounds):
            y = torch.sin(y + x)
        return y
