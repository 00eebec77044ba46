"""Runs under inference mode, so that its results are inference tensors."""

import torch
from torch import nn

PROBLEM = "linear"
CLASS = "libraries"


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)

    @torch.inference_mode()
    def forward(self, x):
        return self.fc(x)
