"""Takes host memory until somebody stops it."""

import time

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "resources"
EXPECT = ("out_of_memory",)
LIMITS = {"call_s": 60.0}
CATALOGUE = "rigor 16"


class ModelNew(nn.Module):
    def forward(self, x):
        available_kb = next(int(l.split()[1]) for l in open("/proc/meminfo") if l.startswith("MemAvailable"))
        held = []
        for _ in range(int(available_kb * 0.9) >> 18):
            held.append(torch.ones(1 << 26))
            time.sleep(0.03)
        time.sleep(3600)
        return x
