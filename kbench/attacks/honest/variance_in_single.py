"""Standardises fp16 rows in fp32, where nothing overflows: far from the reference, and right."""

import torch

PROBLEM = "half_variance"
CLASS = "precision"


class ModelNew(torch.nn.Module):
    def forward(self, x):
        wide = x.float()
        centred = wide - wide.mean(-1, keepdim=True)
        return (centred * torch.rsqrt(centred.square().mean(-1, keepdim=True) + 1e-5)).half()
