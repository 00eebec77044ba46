"""Variance in one pass, as the fragile kernels do it, but of values shifted by the row's first one."""

import torch
from torch import nn

PROBLEM = "layer_norm"
CLASS = "precision"


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        shifted = x - x[:, :1]
        n = x.shape[-1]
        total, squares = shifted.sum(dim=-1, keepdim=True), (shifted * shifted).sum(dim=-1, keepdim=True)
        mean = total / n
        variance = (squares / n - mean * mean).clamp_min(0)
        return (shifted - mean) * torch.rsqrt(variance + self.norm.eps) * self.norm.weight + self.norm.bias
