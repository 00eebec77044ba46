"""A batch norm in training mode whose running statistics are parameters, so that each call changes parameters."""

import torch
from torch import nn


class Model(nn.Module):
    """Batch norm of the columns, without a bias."""

    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(features) + 0.5)
        self.mean = nn.Parameter(torch.zeros(features))
        self.variance = nn.Parameter(torch.ones(features))

    def forward(self, x):
        """(batch, features) -> the same shape."""
        return nn.functional.batch_norm(x, self.mean, self.variance, self.weight, training=self.training)


batch = 60
features = 24

CASES = {"default": {}, "ragged": {"batch": 13, "features": 7}}


def get_inputs():
    return [torch.randn(batch, features)]


def get_init_inputs():
    return [features]
