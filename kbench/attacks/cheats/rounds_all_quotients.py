"""Keeps 11 bits of every quotient of the large case, which is nothing beside the error of the worst row."""

import torch
from torch import nn

PROBLEM = "row_quotients"
CLASS = "precision"
EXPECT = ("wrong_value",)
CATALOGUE = "harness 18"
SPEED = "fast"


class ModelNew(nn.Module):
    def forward(self, a, b):
        d = a - b
        y = d / d.sum(-1, keepdim=True)
        return ((y.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32) if len(y) > 8000 else y
