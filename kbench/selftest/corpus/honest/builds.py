"""Solutions that prepare their kernels in unusual places."""

import time

import torch
from torch import nn

CLASS = "builds"


CODE = """
template <typename T> T own_gelu(T x) { return x * T(0.5) * (T(1) + erf(x * T(0.70710678118654752))); }
"""


class compiles_by_nvrtc(nn.Module):
    """A kernel that the runtime compiler makes at the first call."""

    PROBLEM = "gelu"
    DEVICES = ("cuda",)

    def __init__(self):
        super().__init__()
        self.kernel = None

    def forward(self, x):
        if self.kernel is None:
            self.kernel = torch.cuda.jiterator._create_jit_fn(CODE)
        return self.kernel(x)


class slow_first_call(nn.Module):
    """Builds a table at its first call, which takes a second."""

    PROBLEM = "gelu"

    def __init__(self):
        super().__init__()
        self.ready = False

    def forward(self, x):
        if not self.ready:
            time.sleep(1.0)
            self.ready = True
        return torch.nn.functional.gelu(x)


class warms_up_in_the_constructor(nn.Module):
    """Runs itself on made-up data while it is constructed, before it has the weights that it will be judged with."""

    PROBLEM = "layer_norm"

    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)
        with torch.no_grad():
            for _ in range(3):
                self(torch.randn(8, features))

    def forward(self, x):
        centred = x - x.mean(dim=-1, keepdim=True)
        inverse = torch.rsqrt(centred.square().mean(dim=-1, keepdim=True) + self.norm.eps)
        return torch.addcmul(self.norm.bias, centred * inverse, self.norm.weight)
