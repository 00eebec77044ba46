"""Takes device memory until there is none."""

import torch
from torch import nn

PROBLEM = "relu"
CLASS = "resources"
EXPECT = ("out_of_memory",)
DEVICES = ("cuda",)
ALONE = True
CATALOGUE = "rigor 16"
SPEED = "fast"


class ModelNew(nn.Module):
    def forward(self, x):
        self.held = [torch.empty(1 << 30, dtype=torch.uint8, device=x.device) for _ in range(1 << 12)]
        return torch.relu(x)
