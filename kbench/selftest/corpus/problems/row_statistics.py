"""Mean and variance of rows, returned as a dictionary."""

import torch
from torch import nn


class Model(nn.Module):
    """{"mean": ..., "variance": ...} over the last dimension."""

    def forward(self, x):
        """(batch, features) -> two tensors of shape (batch,)."""
        return {"mean": x.mean(dim=-1), "variance": x.var(dim=-1, unbiased=False)}


batch = 64
features = 500

CASES = {"default": {}, "ragged": {"batch": 5, "features": 37}}


def get_inputs():
    return [torch.randn(batch, features)]


def get_init_inputs():
    return []
