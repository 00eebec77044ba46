"""A shape that broadcasts to the right one."""

import torch
from torch import nn

PROBLEM = "row_statistics"
CLASS = "output type"
EXPECT = ("wrong_shape",)
CATALOGUE = "rigor 9"


class ModelNew(nn.Module):
    def forward(self, x):
        return {
            "mean": x.mean(dim=-1, keepdim=True),
            "variance": x.var(dim=-1, unbiased=False, keepdim=True),
        }
