"""Top values by sorting everything: the same values and, without ties, the same indices."""

import torch
from torch import nn

PROBLEM = "top_values"
CLASS = "output"
SPEED = "fast"


class ModelNew(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.count = count

    def forward(self, x):
        order = torch.argsort(x, dim=-1, descending=True)[:, : self.count]
        return torch.gather(x, -1, order), order
