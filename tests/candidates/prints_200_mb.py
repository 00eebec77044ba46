"""Prints 200 MB, then answers rightly."""

import sys

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        for _ in range(200):
            sys.stdout.write("x" * (1 << 20))
        return torch.nn.functional.gelu(x)
