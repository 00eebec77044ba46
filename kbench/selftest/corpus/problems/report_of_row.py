"""A nested result with numbers, None and a string in it beside the tensors."""

import torch
from torch import nn


class Model(nn.Module):
    """Row sums and what else a module may return."""

    def forward(self, x):
        """(batch, features) -> {"sums": (batch,), "largest": [(batch,), None], "shape": ints, ...}."""
        largest, where = x.max(dim=-1)
        return {
            "sums": x.sum(dim=-1),
            "largest": [largest, None],
            "where": where,
            "shape": tuple(x.shape),
            "unit": "volt",
            "mean": x.mean().item(),
        }


batch = 12
features = 70

CASES = {"default": {}, "ragged": {"batch": 3, "features": 11}}


def get_inputs():
    return [torch.randn(batch, features)]


def get_init_inputs():
    return []
