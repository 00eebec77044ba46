"""Results remembered by samples of the input: its beginning, its end, and elements at equal distances between them."""

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "replay"
EXPECT = ("wrong_value",)
CATALOGUE = "harness 11; rigor 5"
SPEED = "fast"


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.known = {}

    def forward(self, x):
        flat = x.reshape(-1)
        samples = torch.cat([flat[:16], flat[-16:], flat[:: max(1, flat.numel() // 64)]])
        key = (tuple(x.shape), tuple(samples.tolist()))
        if key not in self.known:
            self.known[key] = torch.nn.functional.gelu(x)
        return self.known[key].clone()
