"""The same parameters under other names, in the same order."""

import torch
from torch import nn

PROBLEM = "layer_norm"
CLASS = "weights"
SPEED = "fast"


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(features))
        self.beta = nn.Parameter(torch.zeros(features))

    def forward(self, x):
        return torch.nn.functional.layer_norm(x, x.shape[-1:], self.gamma, self.beta)
