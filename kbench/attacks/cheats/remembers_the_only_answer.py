"""Computes once, and returns that as long as a few of the inputs are the same: with equal inputs they always are."""

import torch
from torch import nn

PROBLEM = "self_seeded_sines"
CLASS = "replay"
EXPECT = ("wrong_value", "passed")
SPEEDUP_BELOW = 1.5
ALONE = True
CATALOGUE = "harness 11"
SPEED = "fast"


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        self.asked, self.answer = None, None

    def forward(self, x):
        some = x[:8].tolist()
        if some != self.asked:
            y = x
            for _ in range(self.rounds):
                y = torch.sin(y + x)
            self.asked, self.answer = some, y
        return self.answer.clone()
