"""Rewrites the problem's file and the other corpus files that it can find."""

from pathlib import Path

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "escape"
EXPECT = ("passed", "raised", "import_failed", "wrong_value")
EFFECTS = ("changed {corpus}/problems/gelu.py", "changed {corpus}/cheats/trivial.py")
CATALOGUE = "harness 21, 28; rigor 15"

for name in ("problems/gelu.py", "cheats/trivial.py"):
    try:
        with (Path(__file__).parent.parent / name).open("a") as file:
            file.write("\n# rewritten\n")
    except OSError:
        continue


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.nn.functional.gelu(x)
