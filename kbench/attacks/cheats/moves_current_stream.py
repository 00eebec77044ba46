"""Makes an idle stream the current one for good, so that events on the current stream see no work."""

import torch
from torch import nn

PROBLEM = "sine_chain"
CLASS = "streams"
EXPECT = ("timing_unattested", "wrong_value", "unwritten_output", "nondeterministic")
DEVICES = ("cuda",)
CATALOGUE = "harness 1; rigor 7"


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        self.busy, self.idle = torch.cuda.Stream(), torch.cuda.Stream()
        torch.cuda.set_stream(self.idle)

    def forward(self, x):
        torch.cuda.set_stream(self.busy)
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        torch.cuda.set_stream(self.idle)
        return y
