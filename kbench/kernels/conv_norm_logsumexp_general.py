"""Convolution -> GroupNorm -> tanh -> hardswish -> + convolution -> logsumexp for any shape."""

from __future__ import annotations

from torch import Tensor

from kbench.kernels import activation_residual, direct_conv, group_statistics, im2col_matmul, logsumexp
from kbench.kernels.conv_shape import ConvShape


def build() -> None:
    """Build and open every native library that the operator uses."""
    for operator in (direct_conv, im2col_matmul, group_statistics, activation_residual, logsumexp):
        operator.library()


def convolve(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Convolve in fp32 FMA: directly where the filter fits in shared memory, else by im2col and a product."""
    shape = ConvShape.of(x, weight)
    if direct_conv.supports(shape.kernel_height, shape.kernel_width):
        return direct_conv.direct_convolution(x, weight, bias)
    return im2col_matmul.im2col_convolution(x, weight, bias)


def conv_norm_logsumexp_general(
    x: Tensor, weight: Tensor, bias: Tensor, gamma: Tensor, beta: Tensor, *, groups: int, eps: float
) -> Tensor:
    """(N, C_in, H, W) -> (N, 1, H_out, W_out), fp32 on a CUDA device.

    Every product is an fp32 FMA: no range of values is excluded. No torch operator computes in the forward;
    each step's gradient goes through torch. TypeError or ValueError for tensors of other types or shapes.
    """
    convolved = convolve(x, weight, bias)
    summands = activation_residual.activation_residual(convolved, gamma, beta, groups=groups, eps=eps)
    return logsumexp.channel_logsumexp(summands)
