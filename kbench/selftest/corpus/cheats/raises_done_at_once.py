"""A thread writes the gate's page: it says `done` the moment that the judge opens; events are forged to match."""

import threading
import time

import torch
from _worker import forge, page
from torch import nn

PROBLEM = "sine_chain"
CLASS = "clock"
EXPECT = ("unfinished_output", "passed")
SPEEDUP_BELOW = 1.03
DEVICES = ("cuda",)
CATALOGUE = "harness 4; rigor 10, 12"


def answer(words):
    while True:
        words[16] = words[0]
        time.sleep(0)


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        words = page()
        if words is not None:
            forge(0.05)
            threading.Thread(target=answer, args=(words,), daemon=True).start()

    def forward(self, x):
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        return y
