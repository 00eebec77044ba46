"""A few sines of some megabytes: tens of microseconds a call on a GPU, so that many calls make a round."""

import torch
from torch import nn


class Model(nn.Module):
    """y = sin(y + x), a few times."""

    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds

    def forward(self, x):
        """(values,) -> (values,)."""
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        return y


values = 1 << 21
rounds = 4

CASES = {"default": {}, "ragged": {"values": 100_003}}


def get_inputs():
    return [torch.randn(values)]


def get_init_inputs():
    return [rounds]
