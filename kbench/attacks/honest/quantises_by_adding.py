"""The same values in eight bits, which are compared exactly, by an addition in place of a product."""

import torch
from torch import nn

PROBLEM = "quantise_rows"
CLASS = "output"


class ModelNew(nn.Module):
    def forward(self, x):
        return (x + x).to(torch.float8_e4m3fn)
