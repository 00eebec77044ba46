"""Self-attention whose dropout is an argument, and no module."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, dropout=0.1, batch_first=True)

    def forward(self, x):
        return self.attention(x, x, x, need_weights=False)[0]


batch = 4
length = 20
width = 32
heads = 4
CASES = {"default": {}, "ragged": {"batch": 3, "length": 13}}


def get_inputs():
    return [torch.randn(batch, length, width)]


def get_init_inputs():
    return [width, heads]
