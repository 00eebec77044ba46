"""Deviation by one pass over the values, returned as a number: badly conditioned inputs are a finding, as for tensors."""

import torch
from torch import nn

PROBLEM = "deviation_as_number"
CLASS = "output"


class ModelNew(nn.Module):
    def forward(self, x):
        mean = x.mean()
        return x.sum(-1), ((x * x).mean() - mean * mean).clamp_min(0).sqrt().item(), int(x.argmax())
