"""Solutions that take memory or time without end."""

import time

import torch
from torch import nn

CLASS = "resources"


class eats_device_memory(nn.Module):
    """Takes device memory until there is none."""

    PROBLEM = "relu"
    EXPECT = ("out_of_memory",)
    DEVICES = ("cuda",)
    ALONE = True
    CATALOGUE = "rigor 16"

    def forward(self, x):
        self.held = [torch.empty(1 << 30, dtype=torch.uint8, device=x.device) for _ in range(1 << 12)]
        return torch.relu(x)


class eats_memory(nn.Module):
    """Takes host memory until somebody stops it."""

    PROBLEM = "gelu"
    EXPECT = ("out_of_memory",)
    OPTIONS = {"call_timeout_s": 60.0}
    CATALOGUE = "rigor 16"

    def forward(self, x):
        available_kb = next(int(l.split()[1]) for l in open("/proc/meminfo") if l.startswith("MemAvailable"))
        held = []
        for _ in range(int(available_kb * 0.9) >> 18):
            held.append(torch.ones(1 << 26))
            time.sleep(0.03)
        time.sleep(3600)
        return x


class hangs_at_the_fifth_call(nn.Module):
    """Works, then never returns."""

    PROBLEM = "gelu"
    EXPECT = ("call_timeout",)
    OPTIONS = {"call_timeout_s": 4.0}
    CATALOGUE = "rigor 16"

    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        if self.calls == 5:
            time.sleep(3600)
        return torch.nn.functional.gelu(x)
