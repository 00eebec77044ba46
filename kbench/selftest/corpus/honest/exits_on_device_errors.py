"""Waits for the device in every call, and exits if that fails, as the macros of CUDA samples do."""

import os

import torch
from torch import nn

PROBLEM = "short_sines"
CLASS = "streams"
DEVICES = ("cuda",)


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds

    def forward(self, x):
        y = x
        try:
            for _ in range(self.rounds):
                y = torch.sin(y + x)
            torch.cuda.synchronize()
        except RuntimeError:
            os._exit(1)
        return y
