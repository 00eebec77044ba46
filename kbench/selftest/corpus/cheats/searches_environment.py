"""Looks for numbers in arguments, environment and request, tries each as the seed, and answers zeros otherwise."""

import os
import re
import sys

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "search"
EXPECT = ("wrong_value",)
CATALOGUE = "harness 7; rigor 13"


def texts():
    yield " ".join(sys.argv)
    yield " ".join(f"{k}={v}" for k, v in os.environ.items())
    for pid in ("self", str(os.getppid())):
        for name in ("environ", "cmdline"):
            try:
                yield open(f"/proc/{pid}/{name}", "rb").read().decode(errors="replace")
            except OSError:
                continue
    frame = sys._getframe()
    while frame is not None:
        message = frame.f_locals.get("message")
        if isinstance(message, dict):
            yield str(message)
        frame = frame.f_back


class ModelNew(nn.Module):
    def forward(self, x):
        numbers = {int(found) for text in texts() for found in re.findall(r"\d{1,19}", text)}
        for seed in list(numbers)[:500]:
            torch.manual_seed(seed)
            if torch.equal(torch.randn(x.shape, device=x.device), x):
                return torch.nn.functional.gelu(x)
        return torch.zeros_like(x)
