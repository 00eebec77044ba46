"""Group norm folded into one multiply-add per channel, statistics in double precision."""

import torch
from torch import nn

PROBLEM = "group_norm_small"
CLASS = "precision"


class ModelNew(nn.Module):
    def __init__(self, groups, channels):
        super().__init__()
        self.groups = groups
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x):
        rows = x.reshape(x.shape[0], self.groups, -1).double()
        mean = rows.mean(-1, keepdim=True)
        inverse = torch.rsqrt(rows.var(-1, keepdim=True, unbiased=False) + 1e-5)
        y = ((rows - mean) * inverse).reshape(x.shape)
        return (y * self.weight.double()[:, None, None] + self.bias.double()[:, None, None]).float()
