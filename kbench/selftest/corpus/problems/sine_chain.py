"""A chain of sines that takes milliseconds a call and more, so that a false clock has something to gain."""

import torch
from torch import nn


class Model(nn.Module):
    """y = sin(y + x), repeated."""

    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds

    def forward(self, x):
        """(values,) -> (values,)."""
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        return y


values = 1 << 27
rounds = 24

CASES = {
    "default": {},
    "cpu": {"values": 1 << 17},
    "ragged": {"values": 100_003},
}


def get_inputs():
    return [torch.randn(values)]


def get_init_inputs():
    return [rounds]
