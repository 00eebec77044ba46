"""Empties what was observed of it, claims files of others, and writes into the folder of manifests if it can."""

import contextlib
import gc
import os

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "escape"
EXPECT = ("passed", "protocol_error")
EFFECTS = ("file {cache}/manifests/kbench_selftest_forged.json", "file {cache}/builds/kbench_selftest_forged")
CATALOGUE = "rigor 15"


def forge():
    for found in gc.get_objects():
        if type(found).__name__ == "Observation":
            found._files.clear()
            found._needs.clear()
            found._files.update(dict.fromkeys(["/etc/shadow", "x" * 5000, "\ud800", "/proc/self/mem"]))
    for parent in (os.environ["TORCH_EXTENSIONS_DIR"], os.environ["TMPDIR"]):
        for up in range(1, 8):
            folder = os.path.join(parent, *[".."] * up)
            for place in ("manifests/kbench_selftest_forged.json", "builds/kbench_selftest_forged"):
                with contextlib.suppress(OSError):
                    open(os.path.join(folder, place), "w").close()


class ModelNew(nn.Module):
    def forward(self, x):
        forge()
        return torch.nn.functional.gelu(x)
