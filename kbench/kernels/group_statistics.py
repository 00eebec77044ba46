"""Mean and 1/standard deviation of every (sample, group) of channels."""

from __future__ import annotations

from functools import cache
from math import prod

import torch
from torch import Tensor

from kbench.kernels import native
from kbench.kernels.conv_shape import check_group_size
from kbench.kernels.launch import launch

FUNCTION = "kbench_group_statistics"


@cache
def library() -> native.NativeLibrary:
    """Build and open the native library."""
    signature = [native.POINTER] * 2 + [native.INT64] * 2 + [native.FLOAT64, native.POINTER]
    return native.load_cuda("group_statistics.cu", {FUNCTION: signature})


def group_statistics(x: Tensor, groups: int, eps: float) -> Tensor:
    """(N, C, *) contiguous fp32 -> (N, groups, 2) fp64: mean, then 1 / sqrt(biased variance + eps).

    In fp64, so that a large mean can be taken off without a shift of the results. Carries no gradient.
    TypeError for another dtype, ValueError where `groups` does not divide C or there is but one value.
    """
    if x.dtype != torch.float32:
        raise TypeError(f"x must be float32, got {x.dtype}")
    batch, channels = x.shape[:2]
    if groups < 1 or channels % groups:
        raise ValueError(f"{channels} channels cannot be split into {groups} groups")
    length = channels // groups * prod(x.shape[2:])
    check_group_size(batch, length)
    statistics = x.new_empty((batch, groups, 2), dtype=torch.float64)
    launch(library(), FUNCTION, x, statistics, batch * groups, length, eps)
    return statistics
