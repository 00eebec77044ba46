"""A linear layer and dropout: random in training mode, so that only evaluation mode can be compared."""

import torch
from torch import nn


class Model(nn.Module):
    """Linear, then dropout."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)
        self.dropout = nn.Dropout(0.2)

    def forward(self, x):
        """(batch, inputs) -> (batch, outputs)."""
        return self.dropout(self.fc(x))


batch = 64
inputs = 48
outputs = 32

CASES = {"default": {}, "ragged": {"batch": 5, "inputs": 13, "outputs": 7}}


def get_inputs():
    return [torch.randn(batch, inputs)]


def get_init_inputs():
    return [inputs, outputs]
