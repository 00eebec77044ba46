"""Connects to a server on this host, as an exfiltrating candidate would to one outside."""

import socket

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "network"
EXPECT = ("passed", "raised", "import_failed")
EFFECTS = ("tcp 47391",)
CATALOGUE = "harness 29; rigor 16"


def send():
    try:
        with socket.create_connection(("127.0.0.1", 47391), timeout=1) as connection:
            connection.sendall(b"kbench-selftest")
    except OSError:
        pass


send()


class ModelNew(nn.Module):
    def forward(self, x):
        send()
        return torch.nn.functional.gelu(x)
