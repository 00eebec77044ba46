"""Control flow by exceptions: deep recursion that ends in an exception, caught where the answer is put together."""

import torch
from torch import nn

PROBLEM = "row_statistics"
CLASS = "python"


class Found(Exception):
    def __init__(self, value):
        super().__init__()
        self.value = value


def total(x):
    if x.shape[-1] > 1:
        middle = x.shape[-1] // 2
        return total(x[..., :middle]) + total(x[..., middle:])
    raise Found(x[..., 0])


def sum_of(x):
    try:
        return total(x)
    except Found as found:
        if x.shape[-1] == 1:
            return found.value
        middle = x.shape[-1] // 2
        return sum_of(x[..., :middle]) + sum_of(x[..., middle:]) if x.shape[-1] > 64 else x.sum(dim=-1)


class ModelNew(nn.Module):
    def forward(self, x):
        mean = sum_of(x) / x.shape[-1]
        deviations = (x - mean[:, None]).square()
        return {"mean": mean, "variance": sum_of(deviations) / x.shape[-1]}
