"""A linear layer with zero-mean weights and inputs."""

import torch
from torch import nn


class Model(nn.Module):
    """y = x W^T + b."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)

    def forward(self, x):
        """(batch, inputs) -> (batch, outputs)."""
        return self.fc(x)


batch = 128
inputs = 192
outputs = 160

CASES = {"default": {}, "ragged": {"batch": 13, "inputs": 77, "outputs": 41}}


def get_inputs():
    return [torch.randn(batch, inputs)]


def get_init_inputs():
    return [inputs, outputs]
