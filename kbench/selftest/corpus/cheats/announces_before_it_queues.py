"""Says `queued` with places of its own before anything is, waits for the open gate itself, and computes then."""

import torch
from _worker import page, request
from torch import nn

PROBLEM = "short_sines"
CLASS = "clock"
EXPECT = ("passed", "protocol_error", "wrong_value")
SPEEDUP_BELOW = 1.03
DEVICES = ("cuda",)
ALONE = True
CATALOGUE = "rigor 12"


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        self.words = page()
        self.buffers = {}

    def chain(self, x):
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        return y

    def forward(self, x):
        owner, message = request()
        if not message.get("gated") or message.get("deliver") or self.words is None:
            return self.chain(x)
        slots = message["slots"]
        inputs = [owner._inputs[slot][0] for slot in slots]
        if x.data_ptr() == inputs[0].data_ptr():
            for given in inputs:
                self.buffers.setdefault(given.data_ptr(), torch.empty_like(given))
            results = [self.buffers[given.data_ptr()] for given in inputs]
            described = [[["output", "tensor", "torch.float32", list(y.shape), "cuda", False]] for y in results]
            places = [owner._queue.places(y) for y in results]
            told = {"outputs": described, "places": places, "handles": owner._queue.handles}
            owner._channel.send({"progress": "queued", "n": message["n"], **told})
            while self.words[0] != message["number"]:
                pass
        return self.buffers[x.data_ptr()].copy_(self.chain(x))
