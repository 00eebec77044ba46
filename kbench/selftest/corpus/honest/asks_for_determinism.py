"""Switches on deterministic algorithms, anomaly detection and benchmark mode; they change no value here."""

import torch
from torch import nn

PROBLEM = "scale_bias"
CLASS = "manners"

torch.use_deterministic_algorithms(True, warn_only=True)
torch.utils.deterministic.fill_uninitialized_memory = True
torch.autograd.set_detect_anomaly(True)
torch.backends.cudnn.benchmark = True
torch.set_printoptions(precision=3)
torch.set_flush_denormal(False)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x):
        y = torch.empty_like(x)
        y[:, :] = x * self.weight
        y += self.bias
        return y
