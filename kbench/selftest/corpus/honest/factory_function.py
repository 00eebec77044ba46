"""`ModelNew` is a function that returns a module."""

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "python"


class Gelu(nn.Module):
    def forward(self, x):
        return torch.nn.functional.gelu(x)


def ModelNew():  # noqa: N802 - the name that the format asks for
    return Gelu()
