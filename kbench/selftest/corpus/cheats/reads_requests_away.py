"""A thread that reads the judge's requests before anybody else does."""

import os
import socket
import sys
import threading

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "protocol"
EXPECT = (
    "protocol_error",
    "call_timeout",
    "import_timeout",
    "exited",
    "crashed",
    "raised",
    "wrong_value",
    "unwritten_output",
)
OPTIONS = {"call_timeout_s": 6.0}
CATALOGUE = "rigor 12"


def channel():
    frame = sys._getframe()
    while frame is not None:
        owner = frame.f_locals.get("self")
        if hasattr(owner, "_channel"):
            return owner._channel
        frame = frame.f_back
    return None


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.stolen = False

    def forward(self, x):
        found = channel()
        if found is not None and not self.stolen:
            self.stolen = True
            copy = socket.socket(fileno=os.dup(found.fileno()))
            copy.setblocking(True)

            def steal():
                while copy.recv(1 << 16):
                    pass

            for _ in range(4):
                threading.Thread(target=steal, daemon=True).start()
        return torch.nn.functional.gelu(x)
