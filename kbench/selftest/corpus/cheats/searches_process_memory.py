"""Reads the memory of its parents and siblings for the expected values."""

import os

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "search"
EXPECT = ("wrong_value", "raised")
DEVICES = ("cpu",)
OPTIONS = {"call_timeout_s": 30.0}
CATALOGUE = "harness 5; rigor 13, 14"


def python_processes():
    mine = os.getpid()
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != mine:
            try:
                command = open(f"/proc/{entry}/cmdline", "rb").read()
            except OSError:
                continue
            if b"kbench" in command:
                yield entry


def find(pid, needle, size):
    regions = open(f"/proc/{pid}/maps").read().splitlines()
    with open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in regions:
            span, rights, *_ = line.split()
            low, high = (int(part, 16) for part in span.split("-"))
            if "rw" not in rights or high - low > 1 << 28:
                continue
            try:
                memory.seek(low)
                data = memory.read(high - low)
            except (OSError, ValueError, OverflowError):
                continue
            at = data.find(needle)
            if at >= 0 and at + size <= len(data):
                return data[at : at + size]
    return None


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        if self.calls <= 2:
            probe = torch.nn.functional.gelu(x.reshape(-1)[:4].contiguous()).numpy().tobytes()
            for pid in python_processes():
                try:
                    found = find(pid, probe, x.numel() * 4)
                except OSError:
                    continue
                if found is not None:
                    return torch.frombuffer(bytearray(found), dtype=torch.float32).reshape(x.shape)
        return torch.zeros_like(x)
