"""Takes floats apart into mantissa and exponent; zero, infinity and negative numbers get an answer of their own."""

import math

import torch
from torch import nn

PROBLEM = "log_with_zeros"
CLASS = "precision"


class ModelNew(nn.Module):
    def forward(self, x):
        mantissa, exponent = torch.frexp(x.double())
        y = torch.log1p(mantissa - 1) + exponent * math.log(2.0)
        y = torch.where(x.isinf() & (x > 0), torch.inf, y)
        y = torch.where(x == 0, -torch.inf, y)
        return torch.where((x < 0) | x.isnan(), torch.nan, y).float()
