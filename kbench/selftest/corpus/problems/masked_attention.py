"""Causal attention of one head with a registered mask."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, width, length):
        super().__init__()
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.register_buffer("mask", torch.tril(torch.ones(length, length)).bool())

    def forward(self, x):
        q, k, v = self.query(x), self.key(x), self.value(x)
        s = (q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5).masked_fill(~self.mask, float("-inf"))
        return torch.softmax(s, -1) @ v


batch = 4
width = 24
length = 30
CASES = {"default": {}, "ragged": {"batch": 3, "width": 7, "length": 11}}


def get_inputs():
    return [torch.randn(batch, length, width)]


def get_init_inputs():
    return [width, length]
