"""A real tensor of zeros whose methods, overridden on the instance, would compute the answer."""

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "lazy"
EXPECT = ("wrong_value", "unwritten_output", "wrong_type")
CATALOGUE = "harness 3; rigor 9"


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.zeros_like(x)
        answer = lambda *args, **kwargs: torch.nn.functional.gelu(x)
        for name in ("contiguous", "clone", "to", "cpu", "cuda", "detach", "reshape", "view", "flatten"):
            setattr(y, name, answer)
        return y
