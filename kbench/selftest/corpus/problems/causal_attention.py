"""Multi-head causal self-attention: three projections, masked softmax, a projection of the result."""

import math

import torch
from torch import nn


class Model(nn.Module):
    """Query, key and value from layers of their own."""

    def __init__(self, width, heads):
        super().__init__()
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)
        self.heads = heads

    def forward(self, x):
        """(batch, length, width) -> the same shape."""
        batch, length, width = x.shape
        q, k, v = (
            layer(x).reshape(batch, length, self.heads, -1).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        scores = q @ k.transpose(-1, -2) / math.sqrt(width // self.heads)
        future = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        weights = torch.softmax(scores.masked_fill(future, float("-inf")), dim=-1)
        return self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))


batch = 2
length = 40
width = 32
heads = 4

CASES = {"default": {}, "ragged": {"batch": 1, "length": 13, "width": 12, "heads": 3}}


def get_inputs():
    return [torch.randn(batch, length, width)]


def get_init_inputs():
    return [width, heads]
