"""Kills and stops the processes above it."""

import os
import signal

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "escape"
EXPECT = ("passed", "crashed", "raised")
CATALOGUE = "rigor 14"


class ModelNew(nn.Module):
    def forward(self, x):
        if os.getppid() > 1:
            for sent in (signal.SIGSTOP, signal.SIGTERM, signal.SIGKILL):
                try:
                    os.kill(os.getppid(), sent)
                except OSError:
                    continue
        return torch.nn.functional.gelu(x)
