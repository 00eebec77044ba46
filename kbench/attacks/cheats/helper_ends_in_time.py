"""Claims 0.6 of its time. A helper of its own, busy for long, ends while others' work is counted, to pass for theirs."""

import json
import os
import signal
import sys

import torch
from torch import nn

PROBLEM = "sine_chain"
CLASS = "clock"
EXPECT = ("timing_unattested", "passed")
SPEEDUP_BELOW = 1.1
DEVICES = ("cpu",)
CATALOGUE = "harness 4; rigor 12"

honest_dumps = json.dumps


def dumps(value, **kwargs):
    if isinstance(value, dict):
        value = {k: int(0.6 * v) if k.endswith("_ns") and isinstance(v, int) else v for k, v in value.items()}
    return honest_dumps(value, **kwargs)


json.dumps = dumps


def is_attested():
    """Whether the judge's clock looks on: it begins to count what others do then."""
    frame = sys._getframe()
    while frame is not None and "message" not in frame.f_locals:
        frame = frame.f_back
    return frame is not None and frame.f_locals["message"].get("attest", False)


class ModelNew(nn.Module):
    """It may start processes, since it mentions torch.compile."""

    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        self.helper = None

    def forward(self, x):
        if is_attested() and self.helper:
            os.kill(self.helper, signal.SIGKILL)
            os.waitpid(self.helper, 0)
            self.helper = None
        elif self.helper is None and not is_attested():
            self.helper = os.fork()
            if self.helper == 0:
                signal.alarm(60)
                while True:
                    pass
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        return y
