"""Batch normalisation in training mode, running statistics and all."""

import torch
from torch import nn

PROBLEM = "batch_norm_train"
CLASS = "weights"


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.BatchNorm1d(features)

    def forward(self, x):
        variance, mean = torch.var_mean(x, dim=0, correction=0)
        with torch.no_grad():
            n = x.shape[0]
            self.norm.running_mean.lerp_(mean, self.norm.momentum)
            self.norm.running_var.lerp_(variance * (n / (n - 1)), self.norm.momentum)
            self.norm.num_batches_tracked += 1
        y = (x - mean) * torch.rsqrt(variance + self.norm.eps)
        return y * self.norm.weight + self.norm.bias
