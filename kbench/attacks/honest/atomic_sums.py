"""Row sums by atomics in two passes: the order of the additions differs from call to call."""

import torch
from torch import nn

PROBLEM = "row_statistics"
CLASS = "determinism"
DEVICES = ("cuda",)
SPEED = "fast"


class ModelNew(nn.Module):
    def forward(self, x):
        rows = torch.arange(x.shape[0], device=x.device).repeat_interleave(x.shape[1])
        mean = torch.zeros(x.shape[0], device=x.device).index_add_(0, rows, x.reshape(-1)) / x.shape[1]
        squares = (x - mean[:, None]).square().reshape(-1)
        variance = torch.zeros_like(mean).index_add_(0, rows, squares) / x.shape[1]
        return {"mean": mean, "variance": variance}
