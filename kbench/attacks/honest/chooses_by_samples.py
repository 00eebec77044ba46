"""Looks at a few samples of the input, as a memo's key would, to choose one of two equal ways; remembers no result."""

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "memory"
SPEED = "fast"


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.taken = {}

    def forward(self, x):
        flat = x.reshape(-1)
        key = tuple(flat[:: max(1, flat.numel() // 64)].tolist())
        by_parts = self.taken.setdefault(key, len(self.taken) % 2 == 0)
        if by_parts:
            return torch.cat([torch.nn.functional.gelu(part) for part in x.chunk(2)])
        return torch.nn.functional.gelu(x)
