"""Hinge loss against labels that are -1 or 1 and nothing in between."""

import torch
from torch import nn


class Model(nn.Module):
    """mean(max(0, 1 - prediction * label))."""

    def forward(self, predictions, labels):
        """(batch, features), (batch, features) of -1.0 and 1.0 -> scalar."""
        return torch.mean(torch.clamp(1 - predictions * labels, min=0))


batch = 32
features = 60

CASES = {"default": {}, "ragged": {"batch": 3, "features": 7}}


def get_inputs():
    labels = torch.randint(0, 2, (batch, features)).float() * 2 - 1
    return [torch.randn(batch, features), labels]


def get_init_inputs():
    return []
