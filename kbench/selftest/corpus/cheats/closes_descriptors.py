"""Closes every descriptor but the standard ones."""

import os

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "protocol"
EXPECT = ("protocol_error", "exited", "crashed", "call_timeout", "raised")
OPTIONS = {"call_timeout_s": 2.0}
CATALOGUE = "rigor 12"


class ModelNew(nn.Module):
    def forward(self, x):
        os.closerange(3, 256)
        return torch.nn.functional.gelu(x)
