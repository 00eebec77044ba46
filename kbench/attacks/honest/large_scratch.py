"""Takes 600 MB of scratch memory for a moment."""

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "memory"


class ModelNew(nn.Module):
    def forward(self, x):
        scratch = torch.empty(150_000_000, device=x.device)
        scratch[:: 1 << 18] = 1.0
        return torch.nn.functional.gelu(x)
