"""Kills its process group."""

import os
import signal

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "escape"
EXPECT = ("crashed", "exited", "passed")
CATALOGUE = "rigor 14"


class ModelNew(nn.Module):
    def forward(self, x):
        os.killpg(os.getpgrp(), signal.SIGKILL)
        return torch.nn.functional.gelu(x)
