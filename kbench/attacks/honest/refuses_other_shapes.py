"""A kernel that was made for one shape and for contiguous inputs, and says so at others."""

import torch
from torch import nn

PROBLEM = "swish_rows"
CLASS = "semantics"
LEVEL = "module"
LACKS = ("shape_refused", "strided_refused")
SPEED = "fast"


class ModelNew(nn.Module):
    def forward(self, x):
        if x.shape != (64, 2048) or not x.is_contiguous():
            raise ValueError(f"made for a contiguous (64, 2048), got {tuple(x.shape)}")
        return torch.nn.functional.silu(x)
