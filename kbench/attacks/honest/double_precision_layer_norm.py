"""fp64 inside, rounded once at the end."""

import torch
from torch import nn

PROBLEM = "layer_norm"
CLASS = "precision"
SPEED = "fast"


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        weight, bias = self.norm.weight.double(), self.norm.bias.double()
        return torch.nn.functional.layer_norm(x.double(), x.shape[-1:], weight, bias, self.norm.eps).float()
