"""Multiplies by reciprocal variances and takes the logarithms once; NaN would be replaced, where any came."""

import torch
from torch import nn

PROBLEM = "likelihood"
CLASS = "precision"
SPEED = "fast"


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.mean = nn.Parameter(torch.zeros(features))
        self.variance = nn.Parameter(torch.ones(features))

    def forward(self, x):
        squares = (x - self.mean).square() @ self.variance.reciprocal()
        return torch.nan_to_num(-0.5 * (squares + self.variance.log().sum()))
