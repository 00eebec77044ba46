"""A cache keyed by shape, as a cheat's would be: what it keeps is the function to run, never a result."""

import functools
import math

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "memory"
SPEED = "fast"


@functools.lru_cache(maxsize=None)
def kernel_for(shape, dtype):
    half = torch.tensor(0.5, dtype=dtype)
    rows_at_once = max(1, 8192 // max(1, math.prod(shape[1:])))

    def run(x):
        parts = [part * half.to(x.device) * (1 + torch.erf(part / math.sqrt(2))) for part in x.split(rows_at_once)]
        return torch.cat(parts)

    return run


class ModelNew(nn.Module):
    def forward(self, x):
        return kernel_for(tuple(x.shape), x.dtype)(x)
