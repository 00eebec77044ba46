"""Solutions with chance in the order of their work, and none in their results."""

import random

import numpy
import torch
from torch import nn

CLASS = "determinism"


class atomic_sums(nn.Module):
    """Row sums by atomics in two passes: the order of the additions differs from call to call."""

    PROBLEM = "row_statistics"
    DEVICES = ("cuda",)

    def forward(self, x):
        rows = torch.arange(x.shape[0], device=x.device).repeat_interleave(x.shape[1])
        mean = torch.zeros(x.shape[0], device=x.device).index_add_(0, rows, x.reshape(-1)) / x.shape[1]
        squares = (x - mean[:, None]).square().reshape(-1)
        variance = torch.zeros_like(mean).index_add_(0, rows, squares) / x.shape[1]
        return {"mean": mean, "variance": variance}


class histogram_by_atomics(nn.Module):
    """Adds ones at random places; the order differs from run to run and integers do not care."""

    PROBLEM = "histogram"

    def __init__(self, bins):
        super().__init__()
        self.bins = bins

    def forward(self, values):
        rows = torch.arange(values.shape[0], device=values.device)[:, None]
        flat = (rows * self.bins + values).flatten()
        counts = torch.zeros(values.shape[0] * self.bins, dtype=torch.int32, device=values.device)
        counts.index_add_(0, flat, torch.ones_like(flat, dtype=torch.int32))
        return counts.view(values.shape[0], self.bins).long()


class random_numbers_of_its_own(nn.Module):
    """Seeds torch and draws random numbers in every call, for an order that does not matter."""

    PROBLEM = "row_statistics"

    def forward(self, x):
        torch.manual_seed(7)
        random.seed(7)
        numpy.random.seed(7)
        order = torch.randperm(x.shape[1]).to(x.device)
        shuffled = x[:, order]
        mean = shuffled.mean(dim=-1)
        return {"mean": mean, "variance": (shuffled - mean[:, None]).square().mean(dim=-1)}


class random_order_product(nn.Module):
    """A matrix product whose slices are added in random order, as split-K with atomics does."""

    PROBLEM = "linear"

    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)

    def forward(self, x):
        starts = list(range(0, x.shape[1], 32))
        random.shuffle(starts)
        y = torch.zeros(x.shape[0], self.fc.weight.shape[0], device=x.device)
        for k in starts:
            y += x[:, k : k + 32] @ self.fc.weight[:, k : k + 32].t()
        return y + self.fc.bias


class random_summation_order(nn.Module):
    """Adds partial sums in an order that differs from call to call, as atomics do: the noise is rounding alone."""

    PROBLEM = "layer_norm"

    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        blocks = list(x.split(61, dim=-1))
        random.shuffle(blocks)
        total = torch.zeros(x.shape[0], 1, device=x.device)
        for block in blocks:
            total = total + block.sum(dim=-1, keepdim=True)
        mean = total / x.shape[-1]
        squares = torch.zeros_like(total)
        for block in blocks:
            squares = squares + ((block - mean) ** 2).sum(dim=-1, keepdim=True)
        inverse = torch.rsqrt(squares / x.shape[-1] + self.norm.eps)
        return (x - mean) * inverse * self.norm.weight + self.norm.bias


class transposed_conv_by_fold(nn.Module):
    """One product for all positions, whose overlapping results `fold` adds up, as atomics would."""

    PROBLEM = "conv_transpose"

    def __init__(self, in_channels, out_channels, kernel_size):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(in_channels, out_channels, kernel_size, kernel_size).uniform_(-0.1, 0.1))
        self.bias = nn.Parameter(torch.empty(out_channels).uniform_(-0.1, 0.1))

    def forward(self, x):
        k = self.weight.shape[-1]
        columns = self.weight.flatten(1).t() @ x.flatten(2)
        size = (2 * x.shape[2] + k - 2, 2 * x.shape[3] + k - 2)
        return torch.nn.functional.fold(columns, size, k, stride=2) + self.bias[:, None, None]
