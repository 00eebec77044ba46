"""`ModelNew` is a function that chooses a class: what it returns is a module like any other."""

import torch
from torch import nn

PROBLEM = "scale_bias"
CLASS = "python"


class Narrow(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x):
        return torch.addcmul(self.bias, x, self.weight)


class Wide(Narrow):
    def forward(self, x):
        return torch.cat([Narrow.forward(self, part) for part in x.split(16)])


def ModelNew(features):
    return Wide(features) if features > 100 else Narrow(features)
