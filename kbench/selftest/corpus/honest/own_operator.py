"""Registers an operator of its own with the dispatcher."""

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "libraries"

library = torch.library.Library("kbench_selftest_own", "DEF")
library.define("gelu(Tensor x) -> Tensor")
library.impl("gelu", lambda x: torch.nn.functional.gelu(x), "CompositeExplicitAutograd")


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.ops.kbench_selftest_own.gelu(x)
