"""Starts a helper that sends a datagram while the source is being built and imported, not when it is called."""

import subprocess
import sys

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "network"
EXPECT = ("passed", "raised", "import_failed")
EFFECTS = ("udp 47392", "tcp 47391")
CATALOGUE = "harness 29; rigor 16"

SCRIPT = """
import socket
for kind, port in ((socket.SOCK_DGRAM, 47392), (socket.SOCK_STREAM, 47391)):
    try:
        s = socket.socket(socket.AF_INET, kind)
        s.settimeout(1)
        s.connect(("127.0.0.1", port))
        s.send(b"kbench-selftest")
    except OSError:
        pass
"""
try:
    subprocess.run([sys.executable, "-c", SCRIPT], timeout=20, check=False)
except (OSError, subprocess.SubprocessError):
    pass


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.nn.functional.gelu(x)
