"""Opens the gate as soon as its calls are queued, to be done before the judge's clock starts."""

import torch
from _worker import page, request
from torch import nn

PROBLEM = "sine_chain"
CLASS = "clock"
EXPECT = ("wrong_value", "unfinished_output")
DEVICES = ("cuda",)
CATALOGUE = "harness 4; rigor 12"


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
