"""Multiplies by the reciprocal of a scale, as serving libraries do: few elements get the neighbouring code of fp8."""

import torch
from torch import nn

PROBLEM = "quantised_rows"
CLASS = "output"
SPEED = "fast"


class ModelNew(nn.Module):
    def forward(self, x):
        scale = x.abs().amax(-1, keepdim=True).clamp_min(1e-12) / 448.0
        return (x * (1.0 / scale)).clamp(-448, 448).to(torch.float8_e4m3fn), scale
