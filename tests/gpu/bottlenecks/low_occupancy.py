"""Blocks of one warp that reserve so much shared memory that two fit an SM."""

import torch
from launching import built

DEVICES = ("cuda",)
launch = built("low_occupancy.cu")


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return launch(x, torch.empty_like(x), x.numel())
