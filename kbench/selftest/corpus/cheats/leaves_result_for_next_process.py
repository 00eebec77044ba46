"""Keeps results on disk, keyed by the first values, for the processes that come after this one."""

import hashlib
import tempfile
from pathlib import Path

import torch
from torch import nn

PROBLEM = "sine_chain"
CLASS = "replay"
EXPECT = ("passed", "wrong_value", "raised")
SPEEDUP_BELOW = 1.5
EFFECTS = ("file /dev/shm/kbench-selftest-*.pt", "file {tmp}/kbench-selftest-*.pt")
CATALOGUE = "harness 11, 28; rigor 5"


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds

    def forward(self, x):
        digest = hashlib.sha256(x[:64].cpu().numpy().tobytes()).hexdigest()
        for folder in (Path("/dev/shm"), Path("/tmp"), Path(tempfile.gettempdir())):
            kept = folder / f"kbench-selftest-{digest}.pt"
            if kept.exists():
                return torch.load(kept).to(x.device)
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        try:
            if x.numel() < 1 << 21:
                torch.save(y.cpu(), Path("/dev/shm") / f"kbench-selftest-{digest}.pt")
        except (OSError, RuntimeError):
            pass
        return y
