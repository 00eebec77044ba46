"""Computes four values at a time and forgets the rest, at a problem whose only shape leaves none."""

import torch
from torch import nn

PROBLEM = "swish_rows"
CLASS = "semantics"
LEVEL = "module"
LACKS = ("shape_specialised",)
CATALOGUE = "harness 23"
SPEED = "fast"


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.zeros(x.shape, device=x.device)
        whole = x.numel() // 4 * 4
        y.view(-1)[:whole] = torch.nn.functional.silu(x.reshape(-1)[:whole])
        return y
