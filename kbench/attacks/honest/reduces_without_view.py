"""Takes any layout where the reference takes contiguous inputs only."""

import torch
from torch import nn

PROBLEM = "flattened_images"
CLASS = "input"
SPEED = "fast"


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(channels) + 0.5)

    def forward(self, x):
        scale = x.square().mean((1, 2, 3), keepdim=True).add(1e-6).rsqrt()
        return x * scale * self.weight[:, None, None]
