"""Reads an image plane by plane, whatever its strides are, as a kernel of raw pointers does."""

import torch
from torch import nn

PROBLEM = "max_pool"
CLASS = "levels"
LEVEL = "module"
LACKS = ("channels_last", "strided")


class ModelNew(nn.Module):
    def forward(self, x):
        _, channels, rows, columns = x.shape
        strides = (channels * rows * columns, rows * columns, columns, 1)
        in_order = torch.as_strided(x, x.shape, strides, x.storage_offset())
        return torch.nn.functional.max_pool2d(in_order, 3, stride=2, padding=1)
