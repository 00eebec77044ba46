"""Replaces its process by another program that keeps the descriptors and says nothing."""

import os

from torch import nn

PROBLEM = "gelu"
CLASS = "protocol"
EXPECT = ("protocol_error", "exited", "call_timeout", "crashed", "raised")
OPTIONS = {"call_timeout_s": 6.0}
CATALOGUE = "rigor 12, 16"


class ModelNew(nn.Module):
    def forward(self, x):
        for fd in range(3, 64):
            try:
                os.set_inheritable(fd, True)
            except OSError:
                continue
        os.execvp("sleep", ["sleep", "60"])
