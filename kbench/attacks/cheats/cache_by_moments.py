"""Results remembered by mean and deviation to one digit, which every draw of the inputs shares."""

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "replay"
EXPECT = ("wrong_value", "nondeterministic")
CATALOGUE = "harness 11; rigor 5"


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.known = {}

    def forward(self, x):
        key = (tuple(x.shape), round(float(x.mean()), 1), round(float(x.std()), 1))
        if key not in self.known:
            self.known[key] = torch.nn.functional.gelu(x)
        return self.known[key].clone()
