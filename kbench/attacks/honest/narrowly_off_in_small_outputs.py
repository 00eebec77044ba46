"""Off by 2e-5 of each value, as fast intrinsics are: within 1e-5 of the reference, narrowly too far from fp64."""

import torch
from torch import nn

PROBLEM = "small_outputs"
CLASS = "numerics"
LEVEL = "module"
FINDINGS = ("far_from_fp64",)


class ModelNew(nn.Module):
    def forward(self, x):
        return 0.02 * torch.tanh(x) * (1 + 2e-5)
