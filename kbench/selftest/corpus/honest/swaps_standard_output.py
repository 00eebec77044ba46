"""Catches what its own code prints, and replaces sys.stdout and sys.excepthook for good."""

import contextlib
import io
import sys

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "manners"

sys.stdout = io.TextIOWrapper(io.FileIO(sys.stdout.fileno(), "w", closefd=False), line_buffering=True)
sys.stderr = sys.stdout
sys.excepthook = lambda *details: print("oh", details)


class ModelNew(nn.Module):
    def forward(self, x):
        with contextlib.redirect_stdout(io.StringIO()) as caught:
            print("computing", x.shape)
        assert caught.getvalue()
        return torch.nn.functional.gelu(x)
