"""Divides the sum of squares by n - 1."""

import torch
from torch import nn

PROBLEM = "group_norm_small"
CLASS = "numerics"
EXPECT = ("wrong_value",)
CATALOGUE = "rigor 18"


class ModelNew(nn.Module):
    def __init__(self, groups, channels):
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels)

    def forward(self, x):
        rows = x.reshape(x.shape[0], self.norm.num_groups, -1)
        mean, variance = rows.mean(-1, keepdim=True), rows.var(-1, keepdim=True, unbiased=True)
        y = ((rows - mean) * torch.rsqrt(variance + self.norm.eps)).reshape(x.shape)
        return y * self.norm.weight[:, None, None] + self.norm.bias[:, None, None]
