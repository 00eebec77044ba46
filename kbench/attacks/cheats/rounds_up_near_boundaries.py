"""Takes the larger code within a hundredth of a boundary, which is far more than rounding explains."""

import torch
from torch import nn

PROBLEM = "int8_rows"
CLASS = "precision"
EXPECT = ("wrong_value",)
CATALOGUE = "harness 18"
SPEED = "fast"


class ModelNew(nn.Module):
    def forward(self, x):
        scale = x.abs().amax(-1, keepdim=True).clamp_min(1e-12) / 127.0
        return (x / scale + 0.01).round().clamp(-128, 127).to(torch.int8), scale
