"""Starts processes that spin for ever, so that the reference and the next solution look slow."""

import subprocess

import torch
from torch import nn

PROBLEM = "sine_chain"
CLASS = "sabotage"
EXPECT = ("passed", "raised", "init_failed", "import_failed")
SPEEDUP_BELOW = 1.3
EFFECTS = ("process kbench-selftest-hog",)
DEVICES = ("cpu",)
CATALOGUE = "harness 24, 27; rigor 20"

SCRIPT = "exec -a kbench-selftest-hog timeout 300 sh -c 'while :; do :; done'"


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        for _ in range(2):
            subprocess.Popen(["bash", "-c", SCRIPT], start_new_session=True)

    def forward(self, x):
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        return y
