"""Results are slices of one large buffer, handed out in turn."""

import torch
from torch import nn

PROBLEM = "short_sines"
CLASS = "output"
DEVICES = ("cuda", "cpu")


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        self.rings, self.turn = {}, 0

    def forward(self, x):
        ring = self.rings.get(x.shape)
        if ring is None:
            ring = self.rings[x.shape] = torch.empty(64, *x.shape, device=x.device)
        self.turn = (self.turn + 1) % 64
        y = x
        for n in range(self.rounds):
            y = torch.sin(y + x) if n < self.rounds - 1 else torch.sin(y + x, out=ring[self.turn])
        return y
