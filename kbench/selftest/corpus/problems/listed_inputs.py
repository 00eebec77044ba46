"""The weighted sum of a list of tensors: a list and a dictionary among the inputs."""

import torch
from torch import nn


class Model(nn.Module):
    """sum of weights[name] * parts[i]."""

    def forward(self, parts, weights):
        """List of (batch, features), {"first": (features,), ...} -> (batch, features)."""
        return parts[0] * weights["first"] + parts[1] * weights["second"]


batch = 24
features = 90

CASES = {"default": {}, "ragged": {"batch": 3, "features": 7}}


def get_inputs():
    parts = [torch.randn(batch, features) for _ in range(2)]
    return [parts, {"first": torch.randn(features), "second": torch.randn(features)}]


def get_init_inputs():
    return []
