"""NumPy does the work on the tensor's own memory; the result is a new array."""

import numpy
import torch
from torch import nn

PROBLEM = "layer_norm"
CLASS = "libraries"
DEVICES = ("cpu",)
SPEED = "fast"


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        values = x.numpy()
        mean = values.mean(axis=-1, keepdims=True, dtype=numpy.float64)
        variance = ((values - mean) ** 2).mean(axis=-1, keepdims=True)
        y = (values - mean) / numpy.sqrt(variance + self.norm.eps)
        y = y * self.norm.weight.detach().numpy() + self.norm.bias.detach().numpy()
        return torch.from_numpy(y.astype(numpy.float32))
