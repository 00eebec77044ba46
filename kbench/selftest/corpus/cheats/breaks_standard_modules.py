"""Replaces json, struct and socket by things that raise, so that the worker cannot report."""

import sys

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "patching"
EXPECT = ("protocol_error", "exited", "crashed", "raised", "call_timeout", "passed")
OPTIONS = {"call_timeout_s": 8.0}
CATALOGUE = "rigor 12"


class Broken:
    def __getattr__(self, name):
        raise RuntimeError("broken")


class ModelNew(nn.Module):
    def forward(self, x):
        for name in ("json", "socket", "struct", "traceback"):
            sys.modules[name] = Broken()
        return torch.nn.functional.gelu(x)
