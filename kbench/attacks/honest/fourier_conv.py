"""A convolution as a product of spectra, in double precision so that large terms may cancel."""

import torch
from torch import nn

PROBLEM = "conv2d"
CLASS = "precision"


class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)

    def forward(self, x):
        size, k = x.shape[2:], self.conv.kernel_size[0]
        signal = torch.fft.rfft2(x.double())
        kernel = torch.fft.rfft2(self.conv.weight.double(), s=size)
        y = torch.fft.irfft2(torch.einsum("ncyx,ocyx->noyx", signal, kernel.conj()), s=size)
        return (y[:, :, : size[0] - k + 1, : size[1] - k + 1] + self.conv.bias[:, None, None]).float()
