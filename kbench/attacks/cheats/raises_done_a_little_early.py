"""A quarter of a round's calls, in slots drawn by lot, come after the flag, while the judge looks elsewhere."""

import random
import sys
import time

import torch
from torch import nn

PROBLEM = "short_sines"
CLASS = "deferred"
EXPECT = ("timing_unattested", "wrong_value", "unwritten_output")
DEVICES = ("cuda",)
ALONE = True
CATALOGUE = "rigor 8, 12"


def request():
    frame = sys._getframe()
    while frame is not None:
        owner, message = frame.f_locals.get("self"), frame.f_locals.get("message")
        if hasattr(owner, "_queue") and isinstance(message, dict) and message.get("op") == "round":
            return owner, message
        frame = frame.f_back
    return None, {}


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        self.owed = []

    def chain(self, x):
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        return y

    def pays(self, queue):
        honest = queue.read

        def read(calls):
            honest(calls)
            time.sleep(0.001)
            for x, y in self.owed:
                y.copy_(self.chain(x))
            self.owed = []
            queue._driver.synchronise()

        queue.read = read

    def forward(self, x):
        owner, message = request()
        if not message.get("gated") or message.get("deliver"):
            return self.chain(x)
        if "read" not in vars(owner._queue):
            self.pays(owner._queue)
        last = owner._inputs[message["slots"][-1]][0].data_ptr() == x.data_ptr()
        if last or random.random() > 0.25:
            return self.chain(x)
        y = torch.empty_like(x)
        self.owed.append((x, y))
        return y
