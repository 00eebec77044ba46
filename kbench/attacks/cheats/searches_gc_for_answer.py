"""Looks through every tensor of its process for one that agrees with a spot check, and returns that."""

import gc

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "search"
EXPECT = ("wrong_value",)
CATALOGUE = "harness 5; rigor 13"
SPEED = "fast"


class ModelNew(nn.Module):
    def forward(self, x):
        probe = torch.nn.functional.gelu(x.reshape(-1)[:8].contiguous())
        for thing in gc.get_objects():
            if type(thing) is torch.Tensor and thing.shape == x.shape and thing.dtype == x.dtype:
                if torch.allclose(thing.reshape(-1)[:8], probe, atol=1e-4):
                    return thing.clone()
        return torch.zeros_like(x)
