"""Results remembered by a random choice of elements, made once, that no other input of a run would share by chance."""

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "replay"
EXPECT = ("wrong_value",)
CATALOGUE = "harness 11; rigor 5"


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.known = {}
        self.chosen = {}

    def forward(self, x):
        flat = x.reshape(-1)
        if flat.numel() not in self.chosen:
            self.chosen[flat.numel()] = torch.randperm(flat.numel())[:8].to(x.device)
        key = (tuple(x.shape), tuple(flat[self.chosen[flat.numel()]].tolist()))
        if key not in self.known:
            self.known[key] = torch.nn.functional.gelu(x)
        return self.known[key].clone()
