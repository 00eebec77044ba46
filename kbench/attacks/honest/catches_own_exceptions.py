"""Tries a fast path that does not exist here and falls back to one that does."""

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "manners"
SPEED = "fast"


class ModelNew(nn.Module):
    def forward(self, x):
        try:
            import a_library_that_nobody_has

            return a_library_that_nobody_has.gelu(x)
        except ImportError:
            return torch.nn.functional.gelu(x)
