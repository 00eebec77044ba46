"""Leaves a daemon behind: two forks, a session of its own, no parent to ask after it."""

import os

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "survivor"
EXPECT = ("passed", "raised", "import_failed", "crashed")
EFFECTS = ("process kbench-selftest-daemon",)
CATALOGUE = "harness 27; rigor 16"

child = os.fork()
if child == 0:
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 256)
        try:
            os.execvp("sleep", ["kbench-selftest-daemon", "240"])
        finally:
            os._exit(1)
    os._exit(0)
os.waitpid(child, 0)


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.nn.functional.gelu(x)
