"""Builds a table at its first call, which takes a second."""

import time

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "builds"


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.ready = False

    def forward(self, x):
        if not self.ready:
            time.sleep(1.0)
            self.ready = True
        return torch.nn.functional.gelu(x)
