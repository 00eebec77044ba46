"""Results that are tiny, tied or hard to compare."""

import torch
from torch import nn

CLASS = "numerics"


class bmm_for_einsum(nn.Module):
    """Another product in fp32: a few of 1e8 results are further than 1e-5 from the reference, which is so far from fp64."""

    PROBLEM = "large_products"
    DEVICES = ("cuda",)

    def forward(self, a, w):
        rows = a.reshape(-1, a.shape[2], a.shape[3])
        return torch.bmm(rows, w.expand(rows.shape[0], *w.shape)).reshape(*a.shape[:3], w.shape[1])


class last_of_equal_integers(nn.Module):
    """Names the last of equal integers as the largest, where the reference names the first."""

    PROBLEM = "largest_of_integers"
    FINDINGS = ("ties",)

    def forward(self, x):
        return x.shape[-1] - 1 - x.flip(-1).argmax(-1)


class narrowly_off_in_small_outputs(nn.Module):
    """Off by 2e-5 of each value, as fast intrinsics are: within 1e-5 of the reference, narrowly too far from fp64."""

    PROBLEM = "small_outputs"
    LEVEL = "module"
    FINDINGS = ("far_from_fp64",)

    def forward(self, x):
        return 0.02 * torch.tanh(x) * (1 + 2e-5)


class spectrum_by_product(nn.Module):
    """The same spectrum by a product with the matrix of roots, in double precision: tiny complex values are held
    against fp64.
    """

    PROBLEM = "small_spectrum"

    def forward(self, x):
        n = torch.arange(x.shape[-1], device=x.device, dtype=torch.float64)
        roots = torch.exp(-2j * torch.pi * torch.outer(n, n) / x.shape[-1])
        return (x.to(torch.complex128) @ roots * 1e-8).to(torch.complex64)
