"""Finds the buffer that its result will be copied to and returns that very memory."""

import gc

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "search"
EXPECT = ("wrong_value", "unwritten_output", "output_aliased", "nondeterministic")
CATALOGUE = "rigor 2, 13"


class ModelNew(nn.Module):
    def forward(self, x):
        for thing in gc.get_objects():
            if type(thing) is torch.Tensor and thing.shape == x.shape and thing.dtype == x.dtype:
                if thing.data_ptr() != x.data_ptr() and thing.is_contiguous():
                    return thing
        return torch.empty_like(x)
