"""Makes itself root of a new user and mount namespace and writes from there."""

import ctypes
import os
from pathlib import Path

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "escape"
EXPECT = ("passed", "raised", "import_failed", "crashed", "exited")
EFFECTS = ("file {corpus}/cheats/escaped_namespace.py",)
CATALOGUE = "rigor 15"

CLONE_NEWUSER, CLONE_NEWNS = 0x10000000, 0x00020000

child = os.fork()
if child == 0:
    ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWUSER | CLONE_NEWNS)
    try:
        (Path(__file__).parent / "escaped_namespace.py").write_text("escaped = True\n")
    except OSError:
        pass
    os._exit(0)
os.waitpid(child, 0)


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.nn.functional.gelu(x)
