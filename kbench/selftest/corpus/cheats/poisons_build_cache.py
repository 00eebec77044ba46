"""Leaves files in the build caches of other solutions, from which their libraries would be loaded."""

import os
import pwd
from pathlib import Path

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "escape"
EXPECT = ("passed", "raised", "import_failed")
EFFECTS = ("file {cache}/kbench_selftest_poison", "file {cache}/*/kbench_selftest_poison")
CATALOGUE = "rigor 15"

home = Path(pwd.getpwuid(os.getuid()).pw_dir)
roots = [home / ".cache" / "kbench", home / ".cache" / "torch_extensions", Path(os.environ.get("KBENCH_CACHE", home))]
for root in roots:
    try:
        folders = [root, *(entry for entry in root.iterdir() if entry.is_dir() and "kbench" in str(root))]
    except OSError:
        continue
    for folder in folders:
        try:
            (folder / "kbench_selftest_poison").write_text("")
        except OSError:
            continue


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.nn.functional.gelu(x)
