"""A named tuple in, and a Python number that is drawn anew for every call."""

from typing import NamedTuple

import torch
from torch import nn


class Pair(NamedTuple):
    above: torch.Tensor
    below: torch.Tensor


class Model(nn.Module):
    def forward(self, pair, slope):
        return pair.above + slope * pair.below


batch = 32
features = 60
CASES = {"default": {}, "ragged": {"batch": 3, "features": 7}}


def get_inputs():
    slope = 0.5 + torch.rand(()).item()
    return [Pair(torch.randn(batch, features), torch.randn(batch, features)), slope]


def get_init_inputs():
    return []
