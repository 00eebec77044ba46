"""Right values, for which the oracle decides, and beside them a constant in place of the indices, which it does not see."""

import torch
from torch import nn

PROBLEM = "small_values_and_places"
CLASS = "trivial"
EXPECT = ("wrong_value",)
CATALOGUE = "rigor 1"


class ModelNew(nn.Module):
    def forward(self, x):
        return x * 1e-7, torch.full(x.shape[:1], 7, device=x.device)
