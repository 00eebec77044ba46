"""Asks torch for its own number of threads, at import and within each call."""

import contextlib
import os

import torch
from torch import nn

PROBLEM = "linear"
CLASS = "threads"

torch.set_num_threads(min(2, os.cpu_count()))
with contextlib.suppress(RuntimeError):
    torch.set_num_interop_threads(2)


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)

    def forward(self, x):
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            return self.fc(x)
        finally:
            torch.set_num_threads(before)
