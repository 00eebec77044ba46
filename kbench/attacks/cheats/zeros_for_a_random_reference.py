"""Zeros, where a reference that is random would be as far from fp64 itself."""

import torch
from torch import nn

PROBLEM = "attention_with_dropout"
CLASS = "trivial"
EXPECT = ("wrong_value",)
CATALOGUE = "harness 17"


class ModelNew(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)

    def forward(self, x):
        return torch.zeros_like(x)
