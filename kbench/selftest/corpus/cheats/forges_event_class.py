"""Wraps the method of the worker's own event class: both times that it could report are a tenth."""

import sys

import torch
from torch import nn

PROBLEM = "sine_chain"
CLASS = "clock"
EXPECT = ("passed",)
SPEEDUP_BELOW = 1.03
DEVICES = ("cuda",)
CATALOGUE = "harness 4; rigor 10"

module = sys.modules.get("kbench.devices.cuda_driver")
if module is not None:
    honest = module.DeviceEvent.ns_since
    module.DeviceEvent.ns_since = lambda self, start: honest(self, start) / 10


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds

    def forward(self, x):
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        return y
