"""One product for all positions, whose overlapping results `fold` adds up, as atomics would."""

import torch
from torch import nn

PROBLEM = "conv_transpose"
CLASS = "determinism"


class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(in_channels, out_channels, kernel_size, kernel_size).uniform_(-0.1, 0.1))
        self.bias = nn.Parameter(torch.empty(out_channels).uniform_(-0.1, 0.1))

    def forward(self, x):
        k = self.weight.shape[-1]
        columns = self.weight.flatten(1).t() @ x.flatten(2)
        size = (2 * x.shape[2] + k - 2, 2 * x.shape[3] + k - 2)
        return torch.nn.functional.fold(columns, size, k, stride=2) + self.bias[:, None, None]
