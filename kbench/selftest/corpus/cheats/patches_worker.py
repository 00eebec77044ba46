"""Rewrites the worker's own module: outputs are described as perfect and never copied."""

import sys

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "patching"
EXPECT = ("unwritten_output", "wrong_value", "protocol_error")
CATALOGUE = "harness 4, 6; rigor 12"


class ModelNew(nn.Module):
    def forward(self, x):
        frame = sys._getframe()
        while frame is not None:
            owner = frame.f_locals.get("self")
            if hasattr(type(owner), "do_round"):
                leaf = ["output", "tensor", str(x.dtype), list(x.shape), x.device.type, False]
                type(owner).do_round.__globals__["deliver"] = lambda *_: [leaf]
            frame = frame.f_back
        return torch.zeros_like(x)
