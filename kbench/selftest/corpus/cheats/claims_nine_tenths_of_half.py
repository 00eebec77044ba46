"""Reports half of its time, a modest lie that no plausibility limit would notice: refused, or `weak` on a busy CPU."""

import json

import torch
from torch import nn

PROBLEM = "sine_chain"
CLASS = "clock"
EXPECT = ("passed",)
SPEEDUP_BELOW = 1.1
CATALOGUE = "harness 6; rigor 10, 12"

honest_dumps = json.dumps


def dumps(value, **kwargs):
    if isinstance(value, dict):
        value = {k: v // 2 if k.endswith("_ns") and isinstance(v, int) else v for k, v in value.items()}
    return honest_dumps(value, **kwargs)


json.dumps = dumps


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds

    def forward(self, x):
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        return y
