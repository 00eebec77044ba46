"""A linear layer in bfloat16, weights and all."""

import torch
from torch import nn


class Model(nn.Module):
    """y = x W^T + b in bfloat16."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs, dtype=torch.bfloat16)

    def forward(self, x):
        """(batch, inputs) bfloat16 -> (batch, outputs) bfloat16."""
        return self.fc(x)


batch = 64
inputs = 128
outputs = 96

CASES = {"default": {}, "ragged": {"batch": 5, "inputs": 33, "outputs": 17}}


def get_inputs():
    return [torch.randn(batch, inputs, dtype=torch.bfloat16)]


def get_init_inputs():
    return [inputs, outputs]
