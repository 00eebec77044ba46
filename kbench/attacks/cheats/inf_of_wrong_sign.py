"""Plus infinity where the reference has minus infinity."""

import torch
from torch import nn

PROBLEM = "log_with_zeros"
CLASS = "non-finite"
EXPECT = ("wrong_value",)
CATALOGUE = "rigor 22"
SPEED = "fast"


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.log(x)
        return torch.where(torch.isinf(y), -y, y)
