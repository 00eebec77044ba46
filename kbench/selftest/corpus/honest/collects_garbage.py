"""Switches the collector off at import and collects at every call, as services do that want even latencies."""

import gc

import torch
from torch import nn

PROBLEM = "scale_bias"
CLASS = "manners"

gc.disable()
gc.freeze()


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x):
        parts = [x.narrow(0, n, 1) for n in range(x.shape[0])]
        parts.append(parts)
        gc.collect(1)
        return torch.cat(parts[:-1]) * self.weight + self.bias
