"""Handles signals, arms an alarm for its first call, and registers what to do at exit."""

import atexit
import faulthandler
import signal
import sys

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "manners"

signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
signal.signal(signal.SIGALRM, lambda *_: print("slow"))
faulthandler.enable()
atexit.register(print, "bye")


class ModelNew(nn.Module):
    def forward(self, x):
        signal.setitimer(signal.ITIMER_REAL, 5.0)
        try:
            return torch.nn.functional.gelu(x)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
