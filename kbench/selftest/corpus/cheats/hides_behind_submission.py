"""Claims a tenth of a short call's time, but all of it as submission, which a clock outside cannot refute."""

import json

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "clock"
EXPECT = ("passed",)
SPEEDUP_BELOW = 1.5
CATALOGUE = "harness 6; rigor 10, 12"

honest_dumps = json.dumps


def dumps(value, **kwargs):
    if isinstance(value, dict) and isinstance(value.get("event_ns"), int):
        value = {**value, "event_ns": value["event_ns"] // 10, "submit_ns": value["event_ns"]}
    return honest_dumps(value, **kwargs)


json.dumps = dumps


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.nn.functional.gelu(x)
