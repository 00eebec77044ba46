"""Keeps 128 values a thread in 32 registers."""

import torch
from launching import built

DEVICES = ("cuda",)
launch = built("spills.cu")


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return launch(x, torch.empty_like(x), x.numel())
