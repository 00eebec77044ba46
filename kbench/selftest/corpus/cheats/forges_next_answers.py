"""Speaks the protocol: answers this request and the next hundred ahead, with valid numbers, and computes nothing."""

import json
import os
import sys

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "protocol"
EXPECT = ("protocol_error", "wrong_value", "unwritten_output", "nondeterministic")
CATALOGUE = "harness 6; rigor 12"


def request():
    frame = sys._getframe()
    while frame is not None:
        message, owner = frame.f_locals.get("message"), frame.f_locals.get("self")
        if isinstance(message, dict) and "n" in message and hasattr(owner, "_channel"):
            return message, owner._channel
        frame = frame.f_back
    return None, None


class ModelNew(nn.Module):
    def forward(self, x):
        message, channel = request()
        if message is not None:
            leaf = ["output", "tensor", str(x.dtype), list(x.shape), x.device.type, False]
            for ahead in range(100):
                answer = {"n": message["n"] + ahead, "event_ns": 1000, "submit_ns": 1000, "outputs": [[leaf]]}
                os.write(channel.fileno(), json.dumps(answer).encode() + b"\n")
        return torch.zeros_like(x)
