"""Right but for the last row of 1e8 results, which is off by a thousandth."""

import torch
from torch import nn

PROBLEM = "large_products"
CLASS = "semantics"
EXPECT = ("wrong_value",)
CATALOGUE = "harness 23"
DEVICES = ("cuda",)


class ModelNew(nn.Module):
    def forward(self, a, w):
        rows = a.reshape(-1, a.shape[2], a.shape[3])
        found = torch.bmm(rows, w.expand(rows.shape[0], *w.shape)).reshape(*a.shape[:3], w.shape[1])
        if a.shape[0] > 2:
            found[-1, -1, -1] *= 1.001
        return found
