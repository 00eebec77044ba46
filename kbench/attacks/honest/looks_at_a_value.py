"""Asks whether its input is finite, on the host, before it computes."""

import torch
from torch import nn

PROBLEM = "sine_chain"
CLASS = "streams"
DEVICES = ("cuda", "cpu")


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds

    def forward(self, x):
        if not bool(torch.isfinite(x[:1]).item()):
            return torch.full_like(x, float("nan"))
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        return y
