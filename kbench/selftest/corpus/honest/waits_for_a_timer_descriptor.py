"""A thread of its own waits for a descriptor of the kernel's that becomes readable every 2 ms, as event loops do."""

import ctypes
import os
import threading

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "threads"


def beat():
    libc = ctypes.CDLL(None)
    descriptor = libc.timerfd_create(1, 0)
    libc.timerfd_settime(descriptor, 0, (ctypes.c_long * 4)(0, 2_000_000, 0, 2_000_000), None)
    while True:
        os.read(descriptor, 8)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        threading.Thread(target=beat, daemon=True).start()

    def forward(self, x):
        return torch.nn.functional.gelu(x)
