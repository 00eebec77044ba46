"""Adds partial sums in an order that differs from call to call, as atomics do: the noise is rounding alone."""

import random

import torch
from torch import nn

PROBLEM = "layer_norm"
CLASS = "determinism"


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        blocks = list(x.split(61, dim=-1))
        random.shuffle(blocks)
        total = torch.zeros(x.shape[0], 1, device=x.device)
        for block in blocks:
            total = total + block.sum(dim=-1, keepdim=True)
        mean = total / x.shape[-1]
        squares = torch.zeros_like(total)
        for block in blocks:
            squares = squares + ((block - mean) ** 2).sum(dim=-1, keepdim=True)
        inverse = torch.rsqrt(squares / x.shape[-1] + self.norm.eps)
        return (x - mean) * inverse * self.norm.weight + self.norm.bias
