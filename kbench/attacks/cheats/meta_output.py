"""A tensor on the meta device: a shape and no data."""

import torch
from torch import nn

PROBLEM = "relu"
CLASS = "output type"
EXPECT = ("wrong_device", "wrong_type")
CATALOGUE = "rigor 9"


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.empty(x.shape, device="meta")
