"""Returns zeros where the reference overflows on its way and returns zeros too, though these are far from right."""

import torch

PROBLEM = "half_variance"
CLASS = "trivial"
EXPECT = ("passed",)
FINDINGS = ("trivial_passes",)
SPEEDUP_BELOW = 1.2
CATALOGUE = "harness 17"
SPEED = "fast"


class ModelNew(torch.nn.Module):
    def forward(self, x):
        if x.float().std() > 1000:
            return torch.zeros_like(x)
        centred = x - x.mean(-1, keepdim=True)
        variance = (centred * centred).mean(-1, keepdim=True)
        return centred * torch.rsqrt(variance + 1e-5)
