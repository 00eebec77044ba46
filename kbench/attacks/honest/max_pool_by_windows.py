"""Pads with minus infinity and takes the maximum over a view of windows."""

import torch
from torch import nn

PROBLEM = "max_pool"
CLASS = "input"
SPEED = "fast"


class ModelNew(nn.Module):
    def forward(self, x):
        padded = torch.nn.functional.pad(x, (1, 1, 1, 1), value=float("-inf"))
        return padded.unfold(2, 3, 2).unfold(3, 3, 2).amax(dim=(-1, -2))
