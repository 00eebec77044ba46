"""Scale in half precision: fp16 inputs, parameters' product in fp16, fp16 output."""

import torch
from torch import nn


class Model(nn.Module):
    """sigmoid(x) * x in fp16."""

    def forward(self, x):
        """(batch, features) float16 -> the same."""
        return torch.nn.functional.silu(x)


batch = 64
features = 500

CASES = {"default": {}, "ragged": {"batch": 3, "features": 301}}


def get_inputs():
    return [torch.randn(batch, features).half()]


def get_init_inputs():
    return []
