"""Passes its precision down by a context variable that is reset when the call ends."""

import contextlib
import contextvars

import torch
from torch import nn

PROBLEM = "layer_norm"
CLASS = "python"

working = contextvars.ContextVar("working", default=torch.float32)


@contextlib.contextmanager
def precision(dtype):
    token = working.set(dtype)
    try:
        yield
    finally:
        working.reset(token)


def mean(x):
    return x.to(working.get()).mean(dim=-1, keepdim=True)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        with precision(torch.float64):
            centred = x - mean(x)
            inverse = torch.rsqrt(mean(centred * centred) + self.norm.eps)
        return (centred * inverse).float() * self.norm.weight + self.norm.bias
