"""The same spectrum by a product with the matrix of roots, in double precision: tiny complex values are held against fp64."""

import torch
from torch import nn

PROBLEM = "small_spectrum"
CLASS = "numerics"


class ModelNew(nn.Module):
    def forward(self, x):
        n = torch.arange(x.shape[-1], device=x.device, dtype=torch.float64)
        roots = torch.exp(-2j * torch.pi * torch.outer(n, n) / x.shape[-1])
        return (x.to(torch.complex128) @ roots * 1e-8).to(torch.complex64)
