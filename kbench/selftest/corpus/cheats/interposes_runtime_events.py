"""Overwrites the machine code of the runtime's cudaEventElapsedTime, which torch's events call."""

import ctypes
import platform
import re

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
    maps = open("/proc/self/maps").read()
    libc = ctypes.CDLL(None, use_errno=True)
    for path in set(re.findall(r"/\S*libcudart\.so\S*", maps)):
        library = ctypes.CDLL(path)
        for name in ("cudaEventElapsedTime", "cudaEventElapsedTime_v2"):
            if not hasattr(library, name):
                continue
            at = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
            page = at & ~4095
            if libc.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(8192), 7) == 0:
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
