"""Computes in the input's memory and copies the result out: the caller's data is gone."""

from torch import nn

PROBLEM = "relu"
CLASS = "integrity"
EXPECT = ("input_mutated",)
CATALOGUE = "harness 8; rigor 3"


class ModelNew(nn.Module):
    def forward(self, x):
        return x.mul_(2.0).clamp_(min=0).mul_(0.5).clone()
