"""Walks the stack and asks the collector for live objects, for a log of its own: it looks, and takes nothing."""

import gc
import sys
import traceback

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "manners"


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.callers = set()
        self.tensors = None

    def forward(self, x):
        self.callers.add(sys._getframe(1).f_code.co_name)
        if self.tensors is None:
            self.tensors = sum(isinstance(thing, torch.Tensor) for thing in gc.get_objects())
            self.first_stack = traceback.extract_stack(limit=3)
        return torch.nn.functional.gelu(x)
