"""A fast path for whole vectors of contiguous inputs, and a general one for the rest."""

import torch
from torch import nn

PROBLEM = "swish_rows"
CLASS = "semantics"
SPEED = "fast"


class ModelNew(nn.Module):
    def forward(self, x):
        if x.numel() % 4 == 0 and x.is_contiguous():
            vectors = x.view(-1, 4)
            return (vectors * torch.sigmoid(vectors)).view(x.shape)
        return torch.nn.functional.silu(x)
