"""Group normalisation (Wu and He, 2018) of a large 4-D tensor: memory-bound, 7.5 GB in and 7.5 GB out."""

import torch
from torch import nn


class Model(nn.Module):
    """GroupNorm with affine parameters: y = (x - mean) / sqrt(var + eps) * gamma + beta per (sample, group)."""

    def __init__(self, num_features: int, num_groups: int):
        super().__init__()
        self.gn = nn.GroupNorm(num_groups=num_groups, num_channels=num_features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch_size, num_features, *) -> the same shape."""
        return self.gn(x)


batch_size = 112
features = 64
num_groups = 8
dim1 = 512
dim2 = 512

CASES = {
    "default": {},
    "cpu": {"batch_size": 4, "dim1": 256, "dim2": 256},
    "small": {"batch_size": 2, "dim1": 64, "dim2": 64},
    "ragged": {"batch_size": 3, "features": 15, "num_groups": 5, "dim1": 37, "dim2": 29},
}


def get_inputs():
    return [torch.rand(batch_size, features, dim1, dim2)]


def get_init_inputs():
    return [features, num_groups]
