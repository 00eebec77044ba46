"""Halves of the batch on two Python threads, joined before it returns."""

from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn

PROBLEM = "sine_chain"
CLASS = "threads"
SPEED = "fast"


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        self.pool = ThreadPoolExecutor(2)

    def _part(self, x):
        with torch.no_grad():
            y = x
            for _ in range(self.rounds):
                y = torch.sin(y + x)
            return y

    def forward(self, x):
        return torch.cat(list(self.pool.map(self._part, x.chunk(2))))
