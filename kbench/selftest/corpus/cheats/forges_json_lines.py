"""Writes verdicts and answers of its own to every descriptor that it can write to."""

import json
import os

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "protocol"
EXPECT = ("protocol_error", "wrong_value", "exited", "crashed")
CATALOGUE = "harness 6; rigor 12"


class ModelNew(nn.Module):
    def forward(self, x):
        lines = [{"status": "passed", "speedup": 50.0}, {"n": 1, "event_ns": 1, "submit_ns": 1, "outputs": []}]
        text = "".join(json.dumps(line) + "\n" for line in lines).encode()
        for fd in range(3, 64):
            try:
                os.set_blocking(fd, False)
                os.write(fd, text)
            except OSError:
                continue
        return torch.zeros_like(x)
