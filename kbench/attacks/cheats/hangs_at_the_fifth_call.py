"""Works, then never returns."""

import time

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "resources"
EXPECT = ("call_timeout",)
LIMITS = {"call_s": 4.0}
CATALOGUE = "rigor 16"


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        if self.calls == 5:
            time.sleep(3600)
        return torch.nn.functional.gelu(x)
