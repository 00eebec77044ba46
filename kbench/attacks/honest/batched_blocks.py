"""Cuts rows into a padded batch, multiplies by `baddbmm`, and cuts the padding off again."""

import torch
from torch import nn

PROBLEM = "linear"
CLASS = "output"


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)

    def forward(self, x):
        rows = x.shape[0]
        blocks = torch.nn.functional.pad(x, (0, 0, 0, -rows % 32)).reshape(-1, 32, x.shape[1])
        weight = self.fc.weight.t().expand(blocks.shape[0], -1, -1)
        return torch.baddbmm(self.fc.bias, blocks, weight).flatten(0, 1)[:rows]
