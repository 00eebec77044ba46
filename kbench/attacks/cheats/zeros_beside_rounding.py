"""Zeros for both outputs, of which only the mean is: what the reference is off there must not excuse the rows."""

import torch
from torch import nn

PROBLEM = "standardised_and_mean"
CLASS = "trivial"
EXPECT = ("wrong_value",)
CATALOGUE = "harness 17"


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.zeros_like(x), torch.zeros(x.shape[0], device=x.device)
