"""Values of a few hundredths, where 1e-5 is a share of a thousandth."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return 0.02 * torch.tanh(x)


rows = 64
features = 300
CASES = {"default": {}, "ragged": {"rows": 5, "features": 41}}


def get_inputs():
    return [torch.randn(rows, features)]


def get_init_inputs():
    return []
