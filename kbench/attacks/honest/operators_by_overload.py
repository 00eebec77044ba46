"""Calls the dispatcher's operators by name and overload instead of torch's functions."""

import torch
from torch import nn

PROBLEM = "layer_norm"
CLASS = "libraries"

aten = torch.ops.aten


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        mean = aten.mean.dim(x, [-1], True)
        centred = aten.sub.Tensor(x, mean)
        variance = aten.mean.dim(aten.mul.Tensor(centred, centred), [-1], True)
        scaled = aten.mul.Tensor(centred, aten.rsqrt.default(aten.add.Scalar(variance, self.norm.eps)))
        return aten.add.Tensor(aten.mul.Tensor(scaled, self.norm.weight), self.norm.bias)
