"""Right while it is verified; from the first request of several calls on zeros, which the contract alone lets pass."""

import sys

import torch
from torch import nn

PROBLEM = "softmax_rows"
CLASS = "phase"
EXPECT = ("wrong_value",)
CATALOGUE = "harness 14"


def slots_of_the_request():
    frame = sys._getframe()
    while frame is not None:
        message = frame.f_locals.get("message")
        if isinstance(message, dict) and "slots" in message:
            return message["slots"]
        frame = frame.f_back
    return []


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.timed = False

    def forward(self, x):
        self.timed = self.timed or len(slots_of_the_request()) > 1
        return torch.zeros_like(x) if self.timed else torch.softmax(x, -1)
