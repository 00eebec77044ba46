"""A pool's thread launches the kernels; the call returns once it has."""

from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn

PROBLEM = "short_sines"
CLASS = "threads"
DEVICES = ("cuda",)

POOL = ThreadPoolExecutor(1)


def chain(x, rounds):
    y = x
    with torch.no_grad():
        for _ in range(rounds):
            y = torch.sin(y + x)
    return y


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds

    def forward(self, x):
        return POOL.submit(chain, x, self.rounds).result()
