"""The largest values of every row and where they are: a tuple of floats and integers."""

import torch
from torch import nn


class Model(nn.Module):
    """torch.topk, sorted."""

    def __init__(self, count):
        super().__init__()
        self.count = count

    def forward(self, x):
        """(batch, features) -> values (batch, count), indices (batch, count) int64."""
        values, indices = torch.topk(x, self.count, dim=-1)
        return values, indices


batch = 32
features = 400
count = 8

CASES = {"default": {}, "ragged": {"batch": 3, "features": 53, "count": 5}}


def get_inputs():
    # Permuted, so that no two values of a row are equal: which of those comes first is for nobody to say.
    return [(torch.rand(batch, features).argsort(dim=-1) - features / 2) / 100]


def get_init_inputs():
    return [count]
