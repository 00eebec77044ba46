"""Asks for dense inputs itself, as a kernel that reads raw memory must."""

import torch
from torch import nn

PROBLEM = "matrix_product"
CLASS = "input"
SPEED = "fast"


class ModelNew(nn.Module):
    def forward(self, a, b):
        b = b.contiguous()
        return torch.as_strided(a.contiguous(), a.shape, (a.shape[1], 1)) @ torch.as_strided(
            b, b.shape, (b.shape[1], 1)
        )
