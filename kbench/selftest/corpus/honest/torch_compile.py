"""torch.compile, default mode."""

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "compilers"


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.compiled = torch.compile(lambda x: torch.nn.functional.gelu(x) + 0.0)

    def forward(self, x):
        return self.compiled(x)
