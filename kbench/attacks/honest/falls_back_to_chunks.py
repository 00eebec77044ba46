"""Catches an out-of-memory error that it provokes itself, and goes on in chunks."""

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "memory"


class ModelNew(nn.Module):
    def forward(self, x):
        try:
            work = torch.empty(1 << 46, device=x.device)
            return work[: x.numel()].view(x.shape).copy_(torch.nn.functional.gelu(x))
        except RuntimeError:
            return torch.cat([torch.nn.functional.gelu(part) for part in x.split(4)])
