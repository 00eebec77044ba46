"""Leaves a long low-priority kernel behind at the end of every call, so that the reference has to share."""

import torch
from torch import nn

PROBLEM = "sine_chain"
CLASS = "sabotage"
EXPECT = ("passed", "timing_unattested")
SPEEDUP_BELOW = 1.2
DEVICES = ("cuda",)
CATALOGUE = "harness 24, 27; rigor 20"


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        self.side = torch.cuda.Stream(priority=0)
        self.ballast = torch.rand(1 << 26, device="cuda")

    def forward(self, x):
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            for _ in range(100):
                self.ballast.sin_()
        return y
