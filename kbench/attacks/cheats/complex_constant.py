"""A huge complex constant where the expected values are tiny."""

import torch
from torch import nn

PROBLEM = "small_spectrum"
CLASS = "trivial"
EXPECT = ("wrong_value",)
CATALOGUE = "rigor 1"


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.full(x.shape, 1e9, dtype=torch.complex64, device=x.device)
