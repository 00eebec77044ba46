"""A kernel that the runtime compiler makes at the first call."""

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "builds"
DEVICES = ("cuda",)

CODE = """
template <typename T> T own_gelu(T x) { return x * T(0.5) * (T(1) + erf(x * T(0.70710678118654752))); }
"""


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.kernel = None

    def forward(self, x):
        if self.kernel is None:
            self.kernel = torch.cuda.jiterator._create_jit_fn(CODE)
        return self.kernel(x)
