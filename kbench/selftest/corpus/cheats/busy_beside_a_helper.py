"""Claims 0.6 of its time, and keeps a processor busy by a helper of its own, to pass for a busy machine."""

import json
import os
import signal

import torch
from torch import nn

PROBLEM = "sine_chain"
CLASS = "clock"
EXPECT = ("passed",)
SPEEDUP_BELOW = 1.1
DEVICES = ("cpu",)
CATALOGUE = "harness 4; rigor 12"

honest_dumps = json.dumps


def dumps(value, **kwargs):
    if isinstance(value, dict):
        value = {k: int(0.6 * v) if k.endswith("_ns") and isinstance(v, int) else v for k, v in value.items()}
    return honest_dumps(value, **kwargs)


json.dumps = dumps


class ModelNew(nn.Module):
    """It may start processes, since it mentions torch.compile."""

    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        self.helper = None

    def forward(self, x):
        if self.helper is None:
            self.helper = os.fork()
            if self.helper == 0:
                signal.alarm(60)
                while True:
                    pass
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        return y
