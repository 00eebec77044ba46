"""A 3x3 convolution by Winograd's F(2x2, 3x3): transformed tiles, fewer products, other rounding."""

import torch
from torch import nn

PROBLEM = "conv2d"
CLASS = "summation order"
SPEED = "fast"

B = ((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, 1, 0, -1))
G = ((1, 0, 0), (0.5, 0.5, 0.5), (0.5, -0.5, 0.5), (0, 0, 1))
A = ((1, 1, 1, 0), (0, 1, -1, -1))


class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)

    def forward(self, x):
        b, g, a = (torch.tensor(matrix, device=x.device, dtype=torch.float32) for matrix in (B, G, A))
        height, width = x.shape[2] - 2, x.shape[3] - 2
        padded = torch.nn.functional.pad(x, (0, width % 2, 0, height % 2))
        tiles = padded.unfold(2, 4, 2).unfold(3, 4, 2)
        data = torch.einsum("ip,ncyxpq,jq->ncyxij", b, tiles, b)
        weights = torch.einsum("ip,ocpq,jq->ocij", g, self.conv.weight, g)
        products = torch.einsum("ncyxij,ocij->noyxij", data, weights)
        y = torch.einsum("ip,noyxpq,jq->noyixj", a, products, a)
        y = y.flatten(4, 5).flatten(2, 3)[:, :, :height, :width]
        return y + self.conv.bias[:, None, None]
