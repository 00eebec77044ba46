"""Takes away its parent's right to open or to write files."""

import os
import resource

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "escape"
EXPECT = ("passed", "raised", "crashed")
CATALOGUE = "rigor 14"


class ModelNew(nn.Module):
    def forward(self, x):
        if os.getppid() > 1:
            for limit in (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_CPU):
                try:
                    resource.prlimit(os.getppid(), limit, (0, 0))
                except (OSError, ValueError):
                    continue
        return torch.nn.functional.gelu(x)
