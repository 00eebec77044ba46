"""A number and a mask among the inputs, both of which are the same for every seed."""

import torch
from torch import nn


class Model(nn.Module):
    """Mean over the last dimension of |x|^p where the mask holds."""

    def forward(self, x, mask, power):
        """(batch, features), bool (batch, features), float -> (batch,)."""
        kept = torch.where(mask, x.abs() ** power, 0.0)
        return kept.sum(-1) / mask.sum(-1).clamp_min(1)


batch = 16
features = 200

CASES = {"default": {}, "ragged": {"batch": 3, "features": 37}}


def get_inputs():
    return [torch.randn(batch, features), torch.ones(batch, features, dtype=torch.bool), 2.0]


def get_init_inputs():
    return []
