"""Cross-entropy against integer targets: a scalar output."""

import torch
from torch import nn


class Model(nn.Module):
    """Mean cross-entropy."""

    def forward(self, logits, targets):
        """(batch, classes), (batch,) int64 -> scalar."""
        return torch.nn.functional.cross_entropy(logits, targets)


batch = 96
classes = 10

CASES = {"default": {}, "ragged": {"batch": 7, "classes": 3}}


def get_inputs():
    return [torch.randn(batch, classes), torch.randint(0, classes, (batch,))]


def get_init_inputs():
    return []
