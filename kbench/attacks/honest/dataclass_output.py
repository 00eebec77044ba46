"""A dataclass of its own, as the reference's."""

from dataclasses import dataclass
import torch
from torch import nn

PROBLEM = "normed_rows"
CLASS = "output"


@dataclass
class Stats:
    normed: torch.Tensor


class ModelNew(nn.Module):
    def forward(self, x):
        y = x - x.mean(-1, keepdim=True)
        return Stats(y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-5))
