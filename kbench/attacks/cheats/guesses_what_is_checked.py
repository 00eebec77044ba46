"""Leaves out one call in five of a round and hopes that these are not among those that are checked."""

import random
import sys

import torch
from torch import nn

PROBLEM = "short_sines"
CLASS = "phase"
EXPECT = ("wrong_value", "unwritten_output", "timing_unattested", "nondeterministic")
DEVICES = ("cuda",)
ALONE = True
CATALOGUE = "rigor 6"


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

    def forward(self, x):
        _, message = request()
        if len(message.get("slots", ())) > 3 and random.random() < 0.2:
            return torch.empty_like(x)
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        return y
