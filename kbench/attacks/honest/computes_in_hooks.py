"""`forward` returns its input untouched and hooks do the work: unusual, and all of it happens within the call."""

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "python"


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_forward_pre_hook(lambda module, arguments: (arguments[0] * 0.5**0.5,))
        self.register_forward_hook(lambda module, arguments, y: arguments[0] * 0.5**0.5 * (1 + torch.erf(y)))

    def forward(self, x):
        return x
