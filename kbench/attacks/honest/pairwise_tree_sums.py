"""Sums by halving, as a block of threads does in shared memory."""

import torch
from torch import nn

PROBLEM = "layer_norm"
CLASS = "summation order"


def tree_sum(x):
    x = torch.nn.functional.pad(x, (0, (1 << (x.shape[-1] - 1).bit_length()) - x.shape[-1]))
    while x.shape[-1] > 1:
        half = x.shape[-1] // 2
        x = x[..., :half] + x[..., half:]
    return x


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        centred = x - tree_sum(x) / x.shape[-1]
        variance = tree_sum(centred.square()) / x.shape[-1]
        return centred / torch.sqrt(variance + self.norm.eps) * self.norm.weight + self.norm.bias
