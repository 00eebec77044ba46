"""A workspace that is allocated at a shape's first call and used again at the next."""

import torch
from torch import nn

PROBLEM = "sine_chain"
CLASS = "memory"


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        self.workspaces = {}

    def forward(self, x):
        work = self.workspaces.get(x.shape)
        if work is None or work.device != x.device:
            work = self.workspaces[x.shape] = torch.empty_like(x)
        y = torch.empty_like(x).copy_(x)
        for _ in range(self.rounds):
            torch.add(y, x, out=work)
            torch.sin(work, out=y)
        return y
