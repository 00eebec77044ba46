"""Strassen's algorithm, one level deep: seven products for eight, in double precision since it loses digits."""

import torch
from torch import nn

PROBLEM = "matrix_product"
CLASS = "summation order"


class ModelNew(nn.Module):
    def forward(self, a, b):
        rows, columns = a.shape[0], b.shape[1]
        a = torch.nn.functional.pad(a.double(), (0, a.shape[1] % 2, 0, rows % 2))
        b = torch.nn.functional.pad(b.double(), (0, columns % 2, 0, b.shape[0] % 2))
        (a11, a12), (a21, a22) = (half.chunk(2, 1) for half in a.chunk(2, 0))
        (b11, b12), (b21, b22) = (half.chunk(2, 1) for half in b.chunk(2, 0))
        m1, m2, m3 = (a11 + a22) @ (b11 + b22), (a21 + a22) @ b11, a11 @ (b12 - b22)
        m4, m5 = a22 @ (b21 - b11), (a11 + a12) @ b22
        m6, m7 = (a21 - a11) @ (b11 + b12), (a12 - a22) @ (b21 + b22)
        top = torch.cat((m1 + m4 - m5 + m7, m3 + m5), 1)
        bottom = torch.cat((m2 + m4, m1 - m2 + m3 + m6), 1)
        return torch.cat((top, bottom))[:rows, :columns].float()
