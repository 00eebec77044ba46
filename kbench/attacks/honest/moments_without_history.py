"""Batch normalisation as one scale and shift per column, its statistics written to the buffers at the end."""

import torch
from torch import nn

PROBLEM = "batch_norm_train"
CLASS = "precision"


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))
        self.register_buffer("running_mean", torch.zeros(features))
        self.register_buffer("running_var", torch.ones(features))

    def forward(self, x):
        wide = x.double()
        variance, mean = torch.var_mean(wide, dim=0, correction=0)
        scale = self.weight.double() * torch.rsqrt(variance + 1e-5)
        y = torch.addcmul(self.bias.double() - mean * scale, wide, scale)
        self.running_mean.mul_(0.9).add_(0.1 * mean)
        self.running_var.mul_(0.9).add_(0.1 * variance * x.shape[0] / (x.shape[0] - 1))
        return y.float()
