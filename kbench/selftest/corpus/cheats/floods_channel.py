"""A line that never ends, on every descriptor that takes it."""

import os
import threading

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "protocol"
EXPECT = ("protocol_error", "call_timeout", "crashed", "exited")
OPTIONS = {"call_timeout_s": 8.0}
CATALOGUE = "rigor 12"


def flood(fd):
    block = b"x" * (1 << 20)
    try:
        os.set_blocking(fd, True)
        for _ in range(256):
            os.write(fd, block)
    except OSError:
        pass


class ModelNew(nn.Module):
    def forward(self, x):
        threads = [threading.Thread(target=flood, args=(fd,), daemon=True) for fd in range(3, 40)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(5)
        return torch.nn.functional.gelu(x)
