"""Takes note of inputs covered and bare, and from then on reads what is covered and computes it before the gate opens."""

import sys

import torch
from torch import nn

PROBLEM = "sine_chain"
CLASS = "deferred"
EXPECT = ("passed", "timing_unattested")
SPEEDUP_BELOW = 1.03
DEVICES = ("cuda",)
CATALOGUE = "harness 2"


def request():
    frame = sys._getframe()
    while frame is not None:
        owner, message = frame.f_locals.get("self"), frame.f_locals.get("message")
        if hasattr(owner, "_queue") and isinstance(message, dict) and message.get("op") == "round":
            return owner, message
        frame = frame.f_back
    return None, {}


PERIOD = 8192


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        self.side = torch.cuda.Stream()
        self.seen = {}
        self.pads = {}

    def chain(self, x):
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        return y

    def forward(self, x):
        _, message = request()
        if not message.get("gated") or x.numel() * 4 % PERIOD or not x.is_contiguous():
            return self.chain(x)
        key, bits = x.data_ptr(), x.view(torch.int32)
        before = self.seen.get(key)
        with torch.cuda.stream(self.side):
            covered = bits[: PERIOD // 4].clone()
            pads = self.pads.setdefault(key, [])
            if before is not None:
                pads.append(before[0] ^ before[1])
            known = len(pads) > 1 and torch.equal(pads[-1], pads[-2])
            guess = self.chain((bits.view(-1, PERIOD // 4) ^ pads[-1]).view(torch.float32).view(-1)) if known else None
        self.side.synchronize()
        self.seen[key] = covered, bits[: PERIOD // 4].clone()
        return self.chain(x) if guess is None else guess
