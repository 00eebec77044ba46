"""Kahan's compensated summation: terms that look as if they cancelled and could be left out."""

import torch
from torch import nn

PROBLEM = "layer_norm"
CLASS = "summation order"
SPEED = "fast"


def kahan(columns):
    total = torch.zeros_like(columns[..., 0])
    lost = torch.zeros_like(total)
    for column in columns.unbind(-1):
        term = column - lost
        new = total + term
        lost = (new - total) - term
        total = new
    return total


def row_sum(x, lanes=64):
    padded = torch.nn.functional.pad(x, (0, -x.shape[-1] % lanes))
    return kahan(kahan(padded.unflatten(-1, (lanes, -1))).unflatten(-1, (1, lanes)))


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        centred = x - row_sum(x) / x.shape[-1]
        variance = row_sum(centred * centred) / x.shape[-1]
        return centred * torch.rsqrt(variance + self.norm.eps) * self.norm.weight + self.norm.bias
