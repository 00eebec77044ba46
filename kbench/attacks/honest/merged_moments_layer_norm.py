"""Moments of blocks, merged pairwise (Chan, Golub and LeVeque)."""

import torch
from torch import nn

PROBLEM = "layer_norm"
CLASS = "summation order"


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(features))
        self.shift = nn.Parameter(torch.zeros(features))

    def forward(self, x):
        count, mean, m2 = 0, 0.0, 0.0
        for block in x.split(96, dim=-1):
            n = block.shape[-1]
            block_mean = block.mean(dim=-1, keepdim=True)
            block_m2 = ((block - block_mean) ** 2).sum(dim=-1, keepdim=True)
            delta = block_mean - mean
            m2 = m2 + block_m2 + delta * delta * (count * n / (count + n))
            mean = mean + delta * (n / (count + n))
            count += n
        return (x - mean) * torch.rsqrt(m2 / count + 1e-5) * self.gain + self.shift
