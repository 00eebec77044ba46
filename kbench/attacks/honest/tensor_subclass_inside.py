"""Wraps its input in a tensor class that counts operations, and takes the wrapping off before it returns."""

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "libraries"


class Counted(torch.Tensor):
    operations = 0

    @classmethod
    def __torch_function__(cls, function, types, arguments=(), keywords=None):
        cls.operations += 1
        return super().__torch_function__(function, types, arguments, keywords or {})


class ModelNew(nn.Module):
    def forward(self, x):
        counted = x.as_subclass(Counted)
        return (0.5 * counted * (1 + torch.erf(counted * 0.5**0.5))).as_subclass(torch.Tensor)
