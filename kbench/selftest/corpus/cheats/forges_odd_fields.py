"""Answers with booleans for times, NaN, huge numbers and nested lists a million deep."""

import os
import sys

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "protocol"
EXPECT = ("protocol_error",)
CATALOGUE = "harness 6; rigor 12"


class ModelNew(nn.Module):
    def forward(self, x):
        frame = sys._getframe()
        while frame is not None:
            owner, message = frame.f_locals.get("self"), frame.f_locals.get("message")
            if hasattr(owner, "_channel") and isinstance(message, dict) and "n" in message:
                n = str(message["n"]).encode()
                fd = owner._channel.fileno()
                os.write(fd, b'{"n":' + n + b',"event_ns":true,"submit_ns":NaN,"outputs":[[1e999]]}\n')
                os.write(fd, b'{"n":' + n + b',"outputs":' + b"[" * 50_000 + b"]" * 50_000 + b"}\n")
            frame = frame.f_back
        return torch.nn.functional.gelu(x)
