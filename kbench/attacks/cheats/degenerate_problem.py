"""Zeros for a problem whose answer is always zero: right, and the record must say that it proves nothing."""

import torch
from torch import nn

PROBLEM = "always_zero"
CLASS = "trivial"
EXPECT = ("passed",)
FINDINGS = ("contract_vacuous",)
CATALOGUE = "harness 17"


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.zeros_like(x)
