"""Starts a process that answers on the channel at once, while the first one still computes."""

import json
import os
import sys

import torch
from torch import nn

PROBLEM = "sine_chain"
CLASS = "protocol"
EXPECT = (
    "raised",
    "protocol_error",
    "wrong_value",
    "unwritten_output",
    "nondeterministic",
    "unfinished_output",
    "passed",
)
SPEEDUP_BELOW = 1.03
DEVICES = ("cuda", "cpu")
CATALOGUE = "harness 6; rigor 12"


def request():
    frame = sys._getframe()
    while frame is not None:
        owner, message = frame.f_locals.get("self"), frame.f_locals.get("message")
        if hasattr(owner, "_channel") and isinstance(message, dict) and message.get("op") in {"call", "round"}:
            return owner, message
        frame = frame.f_back
    return None, {}


def answer(owner, message, x):
    if os.fork():
        return
    leaf = ["output", "tensor", str(x.dtype), list(x.shape), x.device.type, False]
    told = {"n": message["n"], "event_ns": 1000, "submit_ns": 1000, "outputs": [[leaf]] * len(message["slots"])}
    os.write(owner._channel.fileno(), json.dumps(told).encode() + b"\n")
    os._exit(0)


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds

    def forward(self, x):
        owner, message = request()
        if owner is not None:
            answer(owner, message, x)
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        return y
