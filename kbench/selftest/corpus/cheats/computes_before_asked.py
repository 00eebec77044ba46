"""A thread watches the shared memory and computes the answer while the inputs appear, before the call comes."""

import threading
import time

import torch
from torch import nn

PROBLEM = "sine_chain"
CLASS = "deferred"
EXPECT = ("passed", "wrong_value")
SPEEDUP_BELOW = 1.5
DEVICES = ("cpu",)
CATALOGUE = "harness 2"

SLOTS, READY = {}, {}


def chain(x, rounds):
    y = x
    for _ in range(rounds):
        y = torch.sin(y + x)
    return y


def watch(rounds):
    last = {}
    while True:
        for place, x in list(SLOTS.items()):
            tips = x[0].item(), x[-1].item()
            if last.get(place) != tips:
                copy = x.clone()
                READY[place] = copy, chain(copy, rounds)
                last[place] = tips
        time.sleep(0)


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        threading.Thread(target=watch, args=(rounds,), daemon=True).start()

    def forward(self, x):
        SLOTS[x.data_ptr()] = x
        copy, answer = READY.get(x.data_ptr(), (None, None))
        if copy is not None and copy.shape == x.shape and torch.equal(copy, x):
            return answer
        return chain(x, self.rounds)
