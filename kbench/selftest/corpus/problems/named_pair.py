"""A named tuple out."""

from typing import NamedTuple
import torch
from torch import nn


class Out(NamedTuple):
    total: torch.Tensor
    biggest: torch.Tensor


class Model(nn.Module):
    def forward(self, x):
        return Out(x.sum(-1), x.amax(-1))


batch = 32
features = 60
CASES = {"default": {}, "ragged": {"batch": 3, "features": 7}}


def get_inputs():
    return [torch.randn(batch, features)]


def get_init_inputs():
    return []
