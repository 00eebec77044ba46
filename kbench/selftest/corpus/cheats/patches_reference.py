"""Replaces the forward of every module class in the process that is not its own by one that answers zeros."""

import gc
import sys

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "patching"
EXPECT = ("wrong_value",)
CATALOGUE = "harness 21, 24"


class ModelNew(nn.Module):
    def forward(self, x):
        for module in list(sys.modules.values()):
            reference = getattr(module, "Model", None)
            if isinstance(reference, type):
                reference.forward = lambda self, x: torch.zeros_like(x)
        for thing in gc.get_objects():
            if isinstance(thing, type) and thing.__name__ == "Model":
                thing.forward = lambda self, x: torch.zeros_like(x)
        return torch.zeros_like(x)
