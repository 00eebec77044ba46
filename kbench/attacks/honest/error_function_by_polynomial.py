"""The error function by a rational approximation good to 1e-7: an approximation, like a cheat's tanh, but within."""

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "precision"
SPEED = "fast"

COEFFICIENTS = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)


class ModelNew(nn.Module):
    def forward(self, x):
        z = x.double().abs() / 2**0.5
        t = 1 / (1 + 0.3275911 * z)
        series = torch.zeros_like(t)
        for coefficient in COEFFICIENTS:
            series = (series + coefficient) * t
        tail = 0.5 * series * torch.exp(-z * z)
        return (x * torch.where(x < 0, tail, 1 - tail)).float()
