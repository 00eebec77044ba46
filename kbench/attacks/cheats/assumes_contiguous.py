"""Reads the input's memory in order, whatever its strides are."""

import torch
from torch import nn

PROBLEM = "matrix_product"
CLASS = "semantics"
EXPECT = ("wrong_value",)
CATALOGUE = "rigor 3.4"


class ModelNew(nn.Module):
    def forward(self, a, b):
        return a @ torch.as_strided(b, b.shape, (b.shape[1], 1), b.storage_offset())
