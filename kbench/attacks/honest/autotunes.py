"""Times two variants with the clock, at its first call for a shape, and keeps the faster one."""

import time

import torch
from torch import nn

PROBLEM = "sine_chain"
CLASS = "manners"


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        self.chosen = {}

    def _plain(self, x):
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        return y

    def _in_place(self, x):
        y = x.clone()
        for _ in range(self.rounds):
            y.add_(x).sin_()
        return y

    def forward(self, x):
        if x.shape not in self.chosen:
            times = {}
            for variant in (self._plain, self._in_place):
                start = time.perf_counter()
                variant(x)
                if x.is_cuda:
                    torch.cuda.synchronize()
                times[variant] = time.perf_counter() - start
            self.chosen[x.shape] = min(times, key=times.get)
        return self.chosen[x.shape](x)
