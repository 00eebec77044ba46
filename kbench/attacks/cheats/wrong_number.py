"""Right tensors, and a number beside them that is a thousandth off."""

import torch
from torch import nn

PROBLEM = "report_of_row"
CLASS = "trivial"
EXPECT = ("wrong_value",)
CATALOGUE = "rigor 1"


class ModelNew(nn.Module):
    def forward(self, x):
        largest, where = x.max(dim=-1)
        return {
            "sums": x.sum(dim=-1),
            "largest": [largest, None],
            "where": where,
            "shape": tuple(x.shape),
            "unit": "volt",
            "mean": x.mean().item() * 1.001 + 1e-3,
        }
