"""Multiplies by a reciprocal where a value in every fourth row lies in the middle between two codes."""

import torch
from torch import nn

PROBLEM = "quantised_halves"
CLASS = "output"
FINDINGS = ("boundary_codes",)
SPEED = "fast"


class ModelNew(nn.Module):
    def forward(self, x):
        factor = 127.0 / x.abs().amax(-1, keepdim=True).clamp_min(1e-12)
        return (x * factor).round().clamp(-128, 127).to(torch.int8)
