"""An OrderedDict of a class of its own, filled in another order."""

from collections import OrderedDict

import torch
from torch import nn

PROBLEM = "row_statistics"
CLASS = "output"


class Statistics(OrderedDict):
    def __getattr__(self, name):
        return self[name]


class ModelNew(nn.Module):
    def forward(self, x):
        count = 0
        mean, m2 = torch.zeros(2, x.shape[0], dtype=torch.float64, device=x.device)
        for block in x.double().split(100, dim=-1):
            n = block.shape[-1]
            delta = block.mean(dim=-1) - mean
            m2 = m2 + block.var(dim=-1, unbiased=False) * n + delta.square() * (count * n / (count + n))
            mean, count = mean + delta * (n / (count + n)), count + n
        return Statistics(variance=(m2 / count).float(), mean=mean.float())
