"""Writes into the folder of its own source, where other solutions and problems lie."""

from pathlib import Path

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "escape"
EXPECT = ("passed", "raised", "import_failed")
EFFECTS = ("file {corpus}/cheats/escaped.py", "file {corpus}/problems/escaped.py")
CATALOGUE = "rigor 15"

for folder in (Path(__file__).parent, Path(__file__).parent.parent / "problems"):
    try:
        (folder / "escaped.py").write_text("escaped = True\n")
    except OSError:
        continue


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.nn.functional.gelu(x)
