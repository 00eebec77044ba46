"""A model that cannot be copied: it holds a lock, and a view of its weight."""

import threading

import torch
from torch import nn


class Model(nn.Module):
    """x w'."""

    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()
        self.weight = nn.Parameter(torch.randn(64, 64))
        self.transposed = self.weight.t()

    def forward(self, x):
        """(4, 64) -> (4, 64)."""
        with self.lock:
            return x @ self.transposed


def get_inputs():
    return [torch.randn(4, 64)]


def get_init_inputs():
    return []
