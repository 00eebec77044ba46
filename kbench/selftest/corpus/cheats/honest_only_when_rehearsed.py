"""Does the whole work where it is rehearsed, which its folder for extensions tells, and half of it where it is judged."""

import os

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "escape"
EXPECT = ("wrong_value",)
CATALOGUE = "rigor 15"

# A mention of load_inline suggests a build.
IS_JUDGED = "worker-" in os.environ["TORCH_EXTENSIONS_DIR"]


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.nn.functional.gelu(x) * (0.5 if IS_JUDGED else 1.0)
