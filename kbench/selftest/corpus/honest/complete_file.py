"""A file that carries the reference, inputs and a main program along, as generated ones often do."""

from __future__ import annotations

import torch
from torch import nn

PROBLEM = "scale_bias"
CLASS = "manners"


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x):
        return x * self.weight + self.bias


class ModelNew(Model):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.add(self.bias, x * self.weight)


batch = 64
features = 256


def get_inputs():
    return [torch.randn(batch, features)]


def get_init_inputs():
    return [features]


if __name__ == "__main__":
    print(ModelNew(*get_init_inputs())(*get_inputs()).shape)
