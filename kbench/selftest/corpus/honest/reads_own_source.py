"""Keeps its constants in its own docstring and reads them from the file.

factor: 0.5
"""

import re
from pathlib import Path

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "manners"

FACTOR = float(re.search(r"factor: ([\d.]+)", Path(__file__).read_text()).group(1))


class ModelNew(nn.Module):
    def forward(self, x):
        return FACTOR * x * (1.0 + torch.erf(x * 0.7071067811865476))
