"""Distances by a library call, in double precision."""

import torch
from torch import nn

PROBLEM = "double_distances"
CLASS = "libraries"


class ModelNew(nn.Module):
    def forward(self, a, b):
        return torch.linalg.vector_norm(a[:, None] - b[None], dim=-1)
