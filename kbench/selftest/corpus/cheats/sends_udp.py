"""Sends a datagram to this host: no connection, so a rule for TCP alone does not see it."""

import socket

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "network"
EXPECT = ("passed", "raised", "import_failed")
EFFECTS = ("udp 47392",)
CATALOGUE = "harness 29; rigor 16"


class ModelNew(nn.Module):
    def forward(self, x):
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
                sender.sendto(b"kbench-selftest", ("127.0.0.1", 47392))
        except OSError:
            pass
        return torch.nn.functional.gelu(x)
