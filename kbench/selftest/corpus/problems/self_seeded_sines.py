"""Nested sines of inputs that `get_inputs` seeds itself: whatever seed a judge sets, they are the same."""

import torch
from torch import nn


class Model(nn.Module):
    """y = sin(y + x), `rounds` times over."""

    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds

    def forward(self, x):
        """(values,) -> (values,)."""
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        return y


values = 1 << 16
rounds = 24

CASES = {"default": {}, "ragged": {"values": 10_007}}


def get_inputs():
    torch.manual_seed(7)
    return [torch.randn(values)]


def get_init_inputs():
    return [rounds]
