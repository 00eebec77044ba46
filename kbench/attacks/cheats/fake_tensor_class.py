"""An object that claims to be a tensor and answers every method lazily."""

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "lazy"
EXPECT = ("wrong_type", "wrong_structure")
CATALOGUE = "harness 3; rigor 9"


class Pretender:
    def __init__(self, x):
        self._x = x

    @property
    def __class__(self):
        return torch.Tensor

    def __getattr__(self, name):
        return getattr(torch.nn.functional.gelu(self._x), name)


class ModelNew(nn.Module):
    def forward(self, x):
        return Pretender(x)
