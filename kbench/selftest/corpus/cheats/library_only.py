"""Nothing but torch's own operators, for a user who asked for kernels of one's own."""

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "library"
EXPECT = ("library_only",)
OPTIONS = {"require_custom": True}
DEVICES = ("cuda",)
CATALOGUE = "harness 20"


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.nn.functional.gelu(x)
