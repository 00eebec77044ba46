"""Many multiply-adds for each element: arithmetic and little else."""

import torch
from torch import nn

count = 1 << 24
steps = 512

CASES = {"default": {}, "small": {"count": 1 << 12}}


class Model(nn.Module):
    def forward(self, x):
        for _ in range(steps):
            x = 0.001 - 0.999 * x
        return x


def cost():
    return {"dram_bytes": 8 * count, "flops": 2 * steps * count}


def get_inputs():
    return [torch.rand(count)]


def get_init_inputs():
    return []
