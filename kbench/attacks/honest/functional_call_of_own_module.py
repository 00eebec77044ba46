"""torch.func.functional_call with a cached dictionary of parameters."""

import functools
import torch
from torch import nn

PROBLEM = "linear"
CLASS = "python"


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)

    @functools.cached_property
    def table(self):
        return {"weight": self.fc.weight, "bias": self.fc.bias}

    def forward(self, x):
        return torch.func.functional_call(self.fc, self.table, (x,))
