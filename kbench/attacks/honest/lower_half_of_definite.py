"""Reads one half of a symmetric matrix."""

import torch
from torch import nn

PROBLEM = "definite_system"
CLASS = "semantics"


class ModelNew(nn.Module):
    def forward(self, a, b):
        return torch.linalg.solve(a.tril() + a.tril(-1).mT, b)
