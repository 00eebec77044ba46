"""Rounds complex inputs to half precision."""

import torch
from torch import nn

PROBLEM = "inverse_spectrum"
CLASS = "numerics"
EXPECT = ("wrong_value",)
CATALOGUE = "harness 18; rigor 18"


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.fft.ifft2(torch.view_as_complex(torch.view_as_real(x).half().float()))
