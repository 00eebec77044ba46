"""Right but for a hundredth of the codes, each of which is off by one."""

import torch
from torch import nn

PROBLEM = "quantised_rows"
CLASS = "precision"
EXPECT = ("wrong_value",)
CATALOGUE = "harness 18"
SPEED = "fast"


class ModelNew(nn.Module):
    def forward(self, x):
        scale = x.abs().amax(-1, keepdim=True).clamp_min(1e-12) / 448.0
        codes = (x / scale).clamp(-448, 448).to(torch.float8_e4m3fn).view(torch.uint8)
        codes.view(-1)[::100] ^= 1
        return codes.view(torch.float8_e4m3fn), scale
