"""ReLU of inputs that happen to be positive, as in much of KernelBench: the identity is right on them."""

import torch
from torch import nn


class Model(nn.Module):
    """max(x, 0)."""

    def forward(self, x):
        """Any shape -> the same shape."""
        return torch.relu(x)


batch = 32
features = 500

CASES = {"default": {}, "ragged": {"batch": 3, "features": 301}}


def get_inputs():
    return [torch.rand(batch, features)]


def get_init_inputs():
    return []
