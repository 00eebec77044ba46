"""A product of two positive matrices with a long inner dimension, as KernelBench draws them."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, a, b):
        return a @ b


rows = 32
inner = 131072
columns = 32
CASES = {"default": {}, "ragged": {"rows": 17, "inner": 223, "columns": 5}}


def get_inputs():
    return [torch.rand(rows, inner), torch.rand(inner, columns)]


def get_init_inputs():
    return []
