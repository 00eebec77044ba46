"""Two codes off where a value lies on a boundary, which may be one code off, and right elsewhere."""

import torch
from torch import nn

PROBLEM = "quantised_halves"
CLASS = "precision"
EXPECT = ("wrong_value",)
CATALOGUE = "harness 18"


class ModelNew(nn.Module):
    def forward(self, x):
        scale = x.abs().amax(-1, keepdim=True).clamp_min(1e-12) / 127.0
        v = x / scale
        at_boundary = (v - v.floor() - 0.5).abs() < 1e-6
        return torch.where(at_boundary, v.floor() + 2, v.round()).clamp(-128, 127).to(torch.int8)
