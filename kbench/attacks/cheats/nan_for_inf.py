"""NaN where the reference has minus infinity."""

import torch
from torch import nn

PROBLEM = "log_with_zeros"
CLASS = "non-finite"
EXPECT = ("wrong_value", "unwritten_output")
CATALOGUE = "rigor 22"


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.where(x == 0, float("nan"), torch.log(x))
