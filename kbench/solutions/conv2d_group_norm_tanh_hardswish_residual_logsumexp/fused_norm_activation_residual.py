"""torch convolution, then one kernel from normalisation to residual, then a custom logsumexp over channels.

A statistics kernel reads the convolution once (moments merged in fp64); the fused kernel reads it again for
normalise -> affine -> tanh -> hardswish -> + convolution; logsumexp takes each pixel's channels in one read
with a running maximum. The convolution runs with TF32 off. Backward: composed of torch operators.
"""

from torch import nn

from kbench.kernels import activation_residual, group_statistics, logsumexp
from kbench.kernels.convolution import torch_convolution

DEVICES = ("cuda",)

for operator in (group_statistics, activation_residual, logsumexp):
    operator.library()


class ModelNew(nn.Module):
    """Same parameters as the reference Model."""

    def __init__(self, in_channels, out_channels, kernel_size, groups, eps=1e-5):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.group_norm = nn.GroupNorm(groups, out_channels, eps=eps)

    def forward(self, x):
        """(N, in_channels, H, W) -> (N, 1, H - k + 1, W - k + 1)."""
        summands = activation_residual.activation_residual(
            torch_convolution(x, self.conv.weight, self.conv.bias),
            self.group_norm.weight,
            self.group_norm.bias,
            groups=self.group_norm.num_groups,
            eps=self.group_norm.eps,
        )
        return logsumexp.channel_logsumexp(summands)
