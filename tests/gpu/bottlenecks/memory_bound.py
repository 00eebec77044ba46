"""Wide loads and stores, every byte once: as fast as the memory."""

import torch
from launching import built

DEVICES = ("cuda",)
launch = built("memory_bound.cu")


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return launch(x, torch.empty_like(x), x.numel())
