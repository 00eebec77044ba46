"""Waits for the device after each of twenty pieces."""

import torch
from launching import built

DEVICES = ("cuda",)
launch = built("synchronising.cu")


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        for piece, result in zip(x.chunk(20), y.chunk(20), strict=True):
            launch(piece, result, piece.numel())
            torch.cuda.synchronize()
        return y
