"""Asks its `training` flag before it drops anything: in evaluation it must not."""

import torch
from torch import nn

PROBLEM = "dropout_linear"
CLASS = "weights"


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)

    def forward(self, x):
        y = self.fc(x)
        if self.training:
            keep = torch.rand_like(y) > 0.2
            y = y * keep / 0.8
        return y
