"""Sums scores in two parts: where the two best are equal but for rounding, another of them comes first."""

import torch
from torch import nn

PROBLEM = "best_sum"
CLASS = "output"
FINDINGS = ("ties",)


class ModelNew(nn.Module):
    def forward(self, x):
        half = x.shape[-1] // 3
        return (x[..., :half].sum(-1) + x[..., half:].sum(-1)).argmax(-1)
