"""Prints 200 MB, in its first call, and answers rightly in all of them."""

import sys

import torch
from torch import nn

left = iter(range(200))


class ModelNew(nn.Module):
    def forward(self, x):
        for _ in left:
            sys.stdout.write("x" * (1 << 20))
        return torch.nn.functional.gelu(x)
