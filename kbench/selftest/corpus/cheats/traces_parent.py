"""Attaches to its parent as a debugger, which would freeze it."""

import ctypes
import os

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "escape"
EXPECT = ("passed", "raised", "crashed")
CATALOGUE = "rigor 14"

PTRACE_ATTACH = 16


class ModelNew(nn.Module):
    def forward(self, x):
        if os.getppid() > 1:
            libc = ctypes.CDLL(None, use_errno=True)
            libc.ptrace(ctypes.c_long(PTRACE_ATTACH), os.getppid(), None, None)
        return torch.nn.functional.gelu(x)
