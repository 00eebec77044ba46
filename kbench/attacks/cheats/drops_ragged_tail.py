"""Works in tiles of eight columns and forgets what is left over."""

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "semantics"
EXPECT = ("wrong_value", "unwritten_output", "nondeterministic")
CATALOGUE = "rigor 3.4"


class ModelNew(nn.Module):
    def forward(self, x):
        whole = x.shape[1] // 8 * 8
        y = torch.zeros_like(x)
        y[:, :whole] = torch.nn.functional.gelu(x[:, :whole])
        return y
