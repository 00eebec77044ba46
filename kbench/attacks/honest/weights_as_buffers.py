"""Parameters registered as buffers under other names, as inference code does: same order, same shapes."""

import torch
from torch import nn

PROBLEM = "scale_bias"
CLASS = "weights"


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.register_buffer("factor", torch.ones(features))
        self.register_buffer("shift", torch.zeros(features))

    def forward(self, x):
        return torch.addcmul(self.shift, x, self.factor)
