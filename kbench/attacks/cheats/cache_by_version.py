"""Results remembered by address and version counter: writes from another process do not count versions."""

import torch
from torch import nn

PROBLEM = "sine_chain"
CLASS = "replay"
EXPECT = ("wrong_value", "nondeterministic", "passed")
SPEEDUP_BELOW = 1.5
CATALOGUE = "harness 10; rigor 5"


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        self.known = {}

    def forward(self, x):
        key = (x.data_ptr(), x._version, tuple(x.shape))
        if key not in self.known:
            y = x
            for _ in range(self.rounds):
                y = torch.sin(y + x)
            self.known = {key: y}
        return self.known[key].clone()
