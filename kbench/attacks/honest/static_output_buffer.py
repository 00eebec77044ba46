"""Returns the same buffer every time, as CUDA-graph wrappers do; its content is valid until the next call."""

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "memory"
SPEED = "fast"
LEVEL = "module"
LACKS = ("overwritten_output",)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.buffers_by_shape = {}

    def forward(self, x):
        key = (tuple(x.shape), x.dtype, x.device)
        if key not in self.buffers_by_shape:
            self.buffers_by_shape[key] = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        y = self.buffers_by_shape[key]
        y.copy_(torch.nn.functional.gelu(x))
        return y
