"""A sum of outer products, one for every inner index, accumulated in double precision."""

import torch
from torch import nn

PROBLEM = "matrix_product"
CLASS = "precision"


class ModelNew(nn.Module):
    def forward(self, a, b):
        y = torch.zeros(a.shape[0], b.shape[1], dtype=torch.float64, device=a.device)
        for column, row in zip(a.double().unbind(1), b.double().unbind(0)):
            y.addr_(column, row)
        return y.to(a.dtype)
