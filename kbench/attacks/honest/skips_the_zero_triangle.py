"""Multiplies the lower triangle block by block and leaves out the blocks that are zero by construction."""

import torch
from torch import nn

PROBLEM = "triangular_product"
CLASS = "structure"
SPEED = "fast"


class ModelNew(nn.Module):
    def forward(self, a, b):
        y, tile = torch.zeros_like(a), 16
        for i in range(0, a.shape[0], tile):
            for j in range(0, i + 1, tile):
                inner = slice(j, i + tile)
                y[i : i + tile, j : j + tile] = a[i : i + tile, inner] @ b[inner, j : j + tile]
        return y
