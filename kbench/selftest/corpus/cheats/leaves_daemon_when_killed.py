"""A child that forks again and again, so that a sweep over the tree always finds it elsewhere."""

import os
import time

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "survivor"
EXPECT = ("passed", "raised", "import_failed", "crashed")
EFFECTS = ("process kbench-selftest-hopper",)
CATALOGUE = "rigor 16"

SCRIPT = "import os,time\nfor _ in range(4000):\n time.sleep(0.02)\n if os.fork(): os._exit(0)\n os.setsid()\n"

if os.fork() == 0:
    import sys

    try:
        os.execv(sys.executable, ["kbench-selftest-hopper", "-c", SCRIPT])
    finally:
        os._exit(1)
time.sleep(0.5)


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.nn.functional.gelu(x)
