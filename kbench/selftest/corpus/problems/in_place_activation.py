"""An activation that the reference applies in place, so that its input is changed and is the output too."""

import torch
from torch import nn


class Model(nn.Module):
    """LeakyReLU(inplace=True)."""

    def __init__(self, slope):
        super().__init__()
        self.activation = nn.LeakyReLU(slope, inplace=True)

    def forward(self, x):
        """(batch, features) -> the input itself."""
        return self.activation(x)


slope = 0.1
batch = 32
features = 120

CASES = {"default": {}, "ragged": {"batch": 3, "features": 31}}


def get_inputs():
    return [torch.randn(batch, features)]


def get_init_inputs():
    return [slope]
