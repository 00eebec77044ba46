"""Lies about single calls and skips the work of calls in a row; where one call is a whole round, it only lies."""

import json
import sys

import torch
from torch import nn

PROBLEM = "sine_chain"
CLASS = "clock"
EXPECT = ("unfinished_output", "wrong_value", "unwritten_output", "nondeterministic", "passed")
SPEEDUP_BELOW = 1.1
CATALOGUE = "harness 14; rigor 10, 19"

honest_dumps = json.dumps


def dumps(value, **kwargs):
    if isinstance(value, dict):
        value = {k: v // 10 if k.endswith("_ns") and isinstance(v, int) else v for k, v in value.items()}
    return honest_dumps(value, **kwargs)


json.dumps = dumps


def slots_of_this_request():
    frame = sys._getframe()
    while frame is not None:
        message = frame.f_locals.get("message")
        if isinstance(message, dict) and isinstance(message.get("slots"), list):
            return len(message["slots"])
        frame = frame.f_back
    return 1


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds

    def forward(self, x):
        y = x
        for _ in range(self.rounds if slots_of_this_request() == 1 else 2):
            y = torch.sin(y + x)
        return y
