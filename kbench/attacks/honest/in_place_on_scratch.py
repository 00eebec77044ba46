"""Works in place throughout, but on memory of its own."""

import torch
from torch import nn

PROBLEM = "softmax_rows"
CLASS = "memory"


class ModelNew(nn.Module):
    def forward(self, x):
        y = x.clone()
        y.sub_(y.amax(dim=-1, keepdim=True)).exp_()
        y.div_(y.sum(dim=-1, keepdim=True))
        return y
