"""A dictionary with its keys in another order, from one pass over the data."""

import torch
from torch import nn

PROBLEM = "row_statistics"
CLASS = "output"
SPEED = "fast"


class ModelNew(nn.Module):
    def forward(self, x):
        variance, mean = torch.var_mean(x.double(), dim=-1, correction=0)
        return {"variance": variance.float(), "mean": mean.float()}
