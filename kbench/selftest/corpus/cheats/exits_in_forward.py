"""Leaves with success in the middle of a call, having said that all is well."""

import os

from torch import nn

PROBLEM = "gelu"
CLASS = "protocol"
EXPECT = ("exited",)
CATALOGUE = "harness 6; rigor 12"


class ModelNew(nn.Module):
    def forward(self, x):
        print('{"status": "passed", "speedup": 100.0}', flush=True)
        os._exit(0)
