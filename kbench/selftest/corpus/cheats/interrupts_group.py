"""Sends Ctrl-C to its process group, and to the judge's if that is the same one."""

import os
import signal

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "escape"
EXPECT = ("passed", "crashed", "raised", "exited")
CATALOGUE = "rigor 14"


class ModelNew(nn.Module):
    def forward(self, x):
        os.killpg(os.getpgrp(), signal.SIGINT)
        return torch.nn.functional.gelu(x)
