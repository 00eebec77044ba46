"""The full spectrum, of which it returns a view of the first half, conjugated twice without being computed."""

import torch
from torch import nn

PROBLEM = "spectrum"
CLASS = "output"


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.fft.ifft(x, norm="forward")[..., : x.shape[-1] // 2 + 1].conj()
