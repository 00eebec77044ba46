"""Loads four values at a time, as `float4` does, and nothing for addresses that are no multiple of 16 bytes."""

import torch
from torch import nn

PROBLEM = "swish_rows"
CLASS = "levels"
LEVEL = "module"
LACKS = ("misaligned",)
SPEED = "fast"


class ModelNew(nn.Module):
    def forward(self, x):
        start = x.data_ptr() % 16 // x.element_size()
        loaded = x.contiguous().view(-1).roll(start)  # what a load from the address below would bring
        return torch.nn.functional.silu(loaded).view(x.shape)
