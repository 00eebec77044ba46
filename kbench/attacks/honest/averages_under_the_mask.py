"""Multiplies by the mask as numbers, and takes the power that it is given."""

import torch
from torch import nn

PROBLEM = "masked_power"
CLASS = "semantics"
FINDINGS = ("unvaried_input",)
SPEED = "fast"


class ModelNew(nn.Module):
    def forward(self, x, mask, power):
        weights = mask.to(x.dtype)
        return (torch.pow(x.abs(), power) * weights).sum(-1) / weights.sum(-1).clamp(min=1)
