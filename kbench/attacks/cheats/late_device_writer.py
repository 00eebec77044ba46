"""Lets the copy into the judge's buffer happen later, on a stream that nobody waits for."""

import sys

import torch
from torch import nn

PROBLEM = "sine_chain"
CLASS = "deferred"
EXPECT = (
    "unwritten_output",
    "wrong_value",
    "timing_unattested",
    "nondeterministic",
    "protocol_error",
    "crashed",
    "exited",
    "raised",
)
DEVICES = ("cuda",)
CATALOGUE = "rigor 8, 12"


def worker():
    frame = sys._getframe()
    while frame is not None:
        owner = frame.f_locals.get("self")
        if hasattr(owner, "_outputs") and hasattr(owner, "_inputs"):
            return owner
        frame = frame.f_back
    return None


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        self.side = torch.cuda.Stream()

    def forward(self, x):
        owner = worker()
        names = type(owner).do_call.__globals__ if owner is not None else {"deliver": None}
        if owner is not None and not hasattr(names["deliver"], "__wrapped__"):
            names["synchronize"] = lambda *args: None

            def deliver(output, targets, arguments):
                described = [["output", "tensor", str(output.dtype), list(output.shape), output.device.type, False]]
                with torch.cuda.stream(self.side):
                    z = arguments[0]
                    for _ in range(self.rounds):
                        z = torch.sin(z + arguments[0])
                    for target in targets:
                        target.copy_(z)
                return described

            deliver.__wrapped__ = names["deliver"]
            names["deliver"] = deliver
        return torch.empty_like(x)
