"""Tells of results that cannot be read where one call is asked for alone, to keep it from being held against many."""

import json

import torch
from torch import nn

PROBLEM = "long_shift"
CLASS = "clock"
EXPECT = ("passed",)
SPEEDUP_BELOW = 1.1
DEVICES = ("cpu",)
CATALOGUE = "harness 4; rigor 12"

honest_dumps = json.dumps
most = 0


def dumps(value, **kwargs):
    global most
    if isinstance(value, dict) and "event_ns" in value and value.get("places"):
        most = max(most, len(value["places"]))
        if len(value["places"]) < most:
            value = {**value, "places": [[[0, []] for _ in places] for places in value["places"]]}
    return honest_dumps(value, **kwargs)


json.dumps = dumps


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.add(x, 1)
