"""Puts a link where the builder's parent, which no sandbox holds, writes its record of the build."""

import contextlib
import os
from pathlib import Path

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "escape"
EXPECT = ("passed", "build_failed")
EFFECTS = ("file /tmp/kbench_selftest_escape_link",)
CATALOGUE = "rigor 15"

# A mention of load_inline gets it a builder.
with contextlib.suppress(OSError):
    artefacts = Path(os.environ["TORCH_EXTENSIONS_DIR"]).parent
    (artefacts / "built.json").symlink_to("/tmp/kbench_selftest_escape_link")


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.nn.functional.gelu(x)
