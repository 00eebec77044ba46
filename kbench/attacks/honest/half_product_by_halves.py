"""Adds two halves of each sum in fp32 and rounds to bf16 once: other last bits of a bf16 value, in fp32."""

import torch
from torch import nn

PROBLEM = "half_product_inside"
CLASS = "precision"
SPEED = "fast"


class ModelNew(nn.Module):
    def __init__(self, features, results):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(results, features) / features**0.5)

    def forward(self, x):
        a, b = x.bfloat16().float(), self.weight.bfloat16().float()
        half = a.shape[1] // 2
        return (a[:, :half] @ b[:, :half].T + a[:, half:] @ b[:, half:].T).bfloat16().float()
