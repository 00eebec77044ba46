"""Points descriptors 1 and 2 at /dev/null while it works, as wrappers of noisy libraries do, and then back."""

import os

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "manners"


class ModelNew(nn.Module):
    def forward(self, x):
        kept = os.dup(1), os.dup(2)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
            os.write(1, b"noise")
            return torch.nn.functional.gelu(x)
        finally:
            for number, descriptor in enumerate(kept, start=1):
                os.dup2(descriptor, number)
                os.close(descriptor)
            os.close(nowhere)
