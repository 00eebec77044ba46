"""Rounds halves away from zero where the reference rounds to even, and multiplies by a reciprocal."""

import torch
from torch import nn

PROBLEM = "int8_rows"
CLASS = "output"


class ModelNew(nn.Module):
    def forward(self, x):
        scale = x.abs().amax(-1, keepdim=True).clamp_min(1e-12) / 127.0
        v = x * (1.0 / scale)
        return (v.sign() * (v.abs() + 0.5).floor()).clamp(-128, 127).to(torch.int8), scale
