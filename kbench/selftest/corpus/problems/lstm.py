"""A one-layer LSTM: nested tuples as output."""

import torch
from torch import nn


class Model(nn.Module):
    """nn.LSTM, batch first."""

    def __init__(self, inputs, hidden):
        super().__init__()
        self.lstm = nn.LSTM(inputs, hidden, batch_first=True)

    def forward(self, x, h0, c0):
        """(batch, length, inputs), two (1, batch, hidden) -> (batch, length, hidden), (last h, last c)."""
        return self.lstm(x, (h0, c0))


batch = 4
length = 9
inputs = 12
hidden = 16

CASES = {"default": {}, "ragged": {"batch": 3, "length": 5, "inputs": 7, "hidden": 5}}


def get_inputs():
    states = [torch.randn(1, batch, hidden) for _ in range(2)]
    return [torch.randn(batch, length, inputs), *states]


def get_init_inputs():
    return [inputs, hidden]
