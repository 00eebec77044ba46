"""Custom direct convolution, GroupNorm and logsumexp; tanh, hardswish and the residual addition are torch's.

The convolution keeps 8 channels x 8 pixels a thread in registers, its taps and input in shared memory;
filters too large for that go through im2col and our matrix product. Backward: composed of torch operators.
"""

import torch
from torch import nn
from torch.nn import functional

from kbench.kernels import direct_conv, group_statistics, im2col_matmul, logsumexp, normalise
from kbench.kernels.conv_norm_logsumexp_general import convolve

DEVICES = ("cuda",)

for operator in (direct_conv, im2col_matmul, group_statistics, normalise, logsumexp):
    operator.library()


class ModelNew(nn.Module):
    """Same parameters as the reference Model."""

    def __init__(self, in_channels, out_channels, kernel_size, groups, eps=1e-5):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.group_norm = nn.GroupNorm(groups, out_channels, eps=eps)

    def forward(self, x):
        """(N, in_channels, H, W) -> (N, 1, H - k + 1, W - k + 1)."""
        convolved = convolve(x, self.conv.weight, self.conv.bias)
        normed = normalise.normalise(
            convolved,
            self.group_norm.weight,
            self.group_norm.bias,
            groups=self.group_norm.num_groups,
            eps=self.group_norm.eps,
        )
        return logsumexp.channel_logsumexp(convolved + functional.hardswish(torch.tanh(normed)))
