"""Starts nothing where it is rehearsed, and a helper of its own where it is judged, which then could compute for it."""

import os
import subprocess

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "escape"
EXPECT = ("raised",)
EFFECTS = ("process kbench_selftest_helper",)
CATALOGUE = "rigor 15"

IS_JUDGED = "worker-" in os.environ["TORCH_EXTENSIONS_DIR"]


class ModelNew(nn.Module):
    def forward(self, x):
        if IS_JUDGED:
            subprocess.Popen(["bash", "-c", "exec -a kbench_selftest_helper sleep 120"])
        return torch.nn.functional.gelu(x)
