"""Computes the six columns of the first row that a tensor's repr shows first."""

from dataclasses import dataclass
import torch
from torch import nn

PROBLEM = "normed_rows"
CLASS = "trivial"
EXPECT = ("wrong_value", "wrong_type", "reference_failed", "not_verified")
CATALOGUE = "harness 23"


@dataclass
class Stats:
    normed: torch.Tensor


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.zeros_like(x)
        y[:3] = torch.nn.functional.layer_norm(x[:3], x.shape[-1:])
        y[-3:] = torch.nn.functional.layer_norm(x[-3:], x.shape[-1:])
        return Stats(y)
