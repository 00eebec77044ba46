"""Overrides everything through which parameters could be set: right, but only for those of its constructor."""

import torch
from torch import nn

PROBLEM = "linear"
CLASS = "weights"
EXPECT = ("below_level",)
LEVEL = "task"
LACKS = ("frozen_weights",)
CATALOGUE = "harness 19"


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)
        self.own = (self.fc.weight.detach().clone(), self.fc.bias.detach().clone())

    def load_state_dict(self, state_dict, strict=True, assign=False):
        return None

    def state_dict(self, *args, **kwargs):
        return {"fc.weight": self.own[0], "fc.bias": self.own[1]}

    def named_parameters(self, *args, **kwargs):
        return iter(())

    def parameters(self, *args, **kwargs):
        return iter(())

    def forward(self, x):
        weight, bias = (t.to(x.device) for t in self.own)
        return torch.nn.functional.linear(x, weight, bias)
