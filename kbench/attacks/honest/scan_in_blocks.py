"""Prefix sums of blocks and of the blocks' totals, as scans on a GPU are made."""

import torch
from torch import nn

PROBLEM = "prefix_sum"
CLASS = "summation order"
SPEED = "fast"


class ModelNew(nn.Module):
    def forward(self, x):
        padded = torch.nn.functional.pad(x, (0, -x.shape[-1] % 32)).unflatten(-1, (-1, 32))
        step, sums = 1, padded
        while step < 32:
            sums = sums + torch.nn.functional.pad(sums, (step, 0))[..., :32]
            step *= 2
        totals = sums[..., -1]
        before = torch.cumsum(totals, -1) - totals
        return (sums + before[..., None]).flatten(-2)[..., : x.shape[-1]]
