"""Has a timer interrupt it every millisecond, and notes when it is continued, as a shell does: it gains no time by it."""

import signal

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "manners"

ticks = []
signal.signal(signal.SIGALRM, lambda *_: ticks.append(1))
signal.signal(signal.SIGCONT, lambda *_: ticks.clear())
signal.setitimer(signal.ITIMER_REAL, 1e-3, 1e-3)


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.nn.functional.gelu(x)
