"""Returns one buffer so that results are copied, and has computed them in the judge's memory: the copy is left out."""

import sys

import torch
from torch import nn

PROBLEM = "short_sines"
CLASS = "clock"
EXPECT = ("passed", "timing_unattested", "unwritten_output", "wrong_value")
SPEEDUP_BELOW = 1.03
DEVICES = ("cuda",)
ALONE = True
CATALOGUE = "rigor 12"


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
        self.buffer = None

    def forward(self, x):
        owner, message = request()
        if self.buffer is None or self.buffer.shape != x.shape:
            self.buffer = torch.empty_like(x)
        target, self.direct = self.buffer, bool(message.get("deliver"))
        if self.direct:
            slot = next(n for n, given in owner._inputs.items() if given[0].data_ptr() == x.data_ptr())
            target = owner._outputs[slot][0]
            self.leave_out_the_copy(type(owner).do_round.__globals__)
        y = x
        for n in range(self.rounds):
            y = torch.sin(y + x) if n < self.rounds - 1 else torch.sin(y + x, out=target)
        return self.buffer

    def leave_out_the_copy(self, names):
        honest = names["deliver"]
        if not hasattr(honest, "__wrapped__"):

            def deliver(output, targets, arguments):
                return honest(output, () if self.direct else targets, arguments)

            deliver.__wrapped__ = honest
            names["deliver"] = deliver
