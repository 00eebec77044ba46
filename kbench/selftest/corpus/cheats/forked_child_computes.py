"""Hands out shared memory and lets a forked child fill it later."""

import mmap
import os

import torch
from torch import nn

PROBLEM = "sine_chain"
CLASS = "deferred"
EXPECT = ("wrong_value", "unwritten_output", "nondeterministic", "raised", "crashed", "call_timeout")
DEVICES = ("cpu",)
CATALOGUE = "harness 2; rigor 8"


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds

    def forward(self, x):
        y = torch.frombuffer(mmap.mmap(-1, 4 * x.numel()), dtype=torch.float32)
        if os.fork() == 0:
            torch.set_num_threads(1)
            z = x
            for _ in range(self.rounds):
                z = torch.sin(z + x)
            y.copy_(z)
            os._exit(0)
        return y
