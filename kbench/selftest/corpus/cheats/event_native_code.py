"""Overwrites the machine code of the driver's cuEventElapsedTime by one that always answers a microsecond."""

import ctypes
import platform

import torch
from torch import nn

PROBLEM = "sine_chain"
CLASS = "events"
EXPECT = ("passed", "crashed")
SPEEDUP_BELOW = 1.03
DEVICES = ("cuda",)
CATALOGUE = "harness 4; rigor 10"

# mov dword [rdi], 0.001f; xor eax, eax; ret
ANSWER = bytes.fromhex("c7076f12833a31c0c3")


def overwrite():
    libc, driver = ctypes.CDLL(None, use_errno=True), ctypes.CDLL("libcuda.so.1")
    for name in ("cuEventElapsedTime", "cuEventElapsedTime_v2"):
        if hasattr(driver, name):
            at = ctypes.cast(getattr(driver, name), ctypes.c_void_p).value
            if libc.mprotect(ctypes.c_void_p(at & ~4095), ctypes.c_size_t(8192), 7) == 0:
                ctypes.memmove(at, ANSWER, len(ANSWER))


class ModelNew(nn.Module):
    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        if platform.machine() == "x86_64":
            overwrite()

    def forward(self, x):
        y = x
        for _ in range(self.rounds):
            y = torch.sin(y + x)
        return y
