"""Loads four values at a time, and says so where the address does not allow it."""

import torch
from torch import nn

PROBLEM = "swish_rows"
CLASS = "levels"
LEVEL = "module"
LACKS = ("misaligned_refused",)


class ModelNew(nn.Module):
    def forward(self, x):
        if x.data_ptr() % 16:
            raise ValueError("the input must begin at a multiple of 16 bytes")
        return torch.nn.functional.silu(x)
