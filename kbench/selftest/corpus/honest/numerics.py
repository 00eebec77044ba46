"""Results that are tiny, tied or hard to compare."""

import torch
from torch import nn

CLASS = "numerics"


class last_of_equal_integers(nn.Module):
    """Names the last of equal integers as the largest, where the reference names the first."""

    PROBLEM = "largest_of_integers"
    FINDINGS = ("ties",)

    def forward(self, x):
        return x.shape[-1] - 1 - x.flip(-1).argmax(-1)


class spectrum_by_product(nn.Module):
    """The same spectrum by a product with the matrix of roots, in double precision: tiny complex values are held
    against fp64.
    """

    PROBLEM = "small_spectrum"

    def forward(self, x):
        n = torch.arange(x.shape[-1], device=x.device, dtype=torch.float64)
        roots = torch.exp(-2j * torch.pi * torch.outer(n, n) / x.shape[-1])
        return (x.to(torch.complex128) @ roots * 1e-8).to(torch.complex64)
