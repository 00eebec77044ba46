"""Tensors, numbers, None and text in one result, the sums in another order."""

import torch
from torch import nn

PROBLEM = "report_of_row"
CLASS = "output"


class ModelNew(nn.Module):
    def forward(self, x):
        where = torch.argmax(x, dim=-1)
        sums = torch.stack([row.double().sum() for row in x])
        return {
            "unit": "volt",
            "shape": [*x.shape],
            "where": where,
            "largest": (x.gather(1, where[:, None])[:, 0], None),
            "sums": sums.float(),
            "mean": float(sums.sum() / x.numel()),
        }
