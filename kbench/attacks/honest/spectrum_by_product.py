"""The discrete Fourier transform as a product with a table of roots of unity, computed when first needed."""

import functools
import math

import torch
from torch import nn

PROBLEM = "spectrum"
CLASS = "output"


@functools.cache
def roots(length, device):
    turns = torch.outer(torch.arange(length), torch.arange(length // 2 + 1)) % length
    angles = turns.double() * (-2 * math.pi / length)
    return torch.polar(torch.ones_like(angles), angles).to(device)


class ModelNew(nn.Module):
    def forward(self, x):
        return (x.to(torch.complex128) @ roots(x.shape[-1], x.device)).to(torch.complex64)
