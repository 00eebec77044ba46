"""Names the last of equal integers as the largest, where the reference names the first."""

import torch
from torch import nn

PROBLEM = "largest_of_integers"
CLASS = "numerics"
FINDINGS = ("ties",)


class ModelNew(nn.Module):
    def forward(self, x):
        return x.shape[-1] - 1 - x.flip(-1).argmax(-1)
