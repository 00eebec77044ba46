"""Outputs for the first hundred seeds, computed ahead and looked up by the first value."""

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "seeds"
EXPECT = ("wrong_value",)
CATALOGUE = "harness 7"


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.known = {}
        state = torch.get_rng_state()
        for seed in range(100):
            torch.manual_seed(seed)
            x = torch.randn(32, 500)
            self.known[float(x[0, 0])] = torch.nn.functional.gelu(x)
        torch.set_rng_state(state)

    def forward(self, x):
        found = self.known.get(float(x.reshape(-1)[0]))
        return torch.zeros_like(x) if found is None else found.to(x.device)
