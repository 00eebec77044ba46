"""Asks for cores, caches, compilers and libraries, by files and by programs that may not be started here."""

import ctypes
import ctypes.util
import os
import platform
import shutil
import subprocess
from pathlib import Path

import torch
from torch import nn

PROBLEM = "gelu"
CLASS = "manners"

CORES = len(os.sched_getaffinity(0)) or os.cpu_count()
FLAGS = "avx2" in Path("/proc/cpuinfo").read_text()
SYSTEM = (platform.uname(), platform.processor(), platform.libc_ver(), shutil.which("gcc"), torch.__config__.show())
LIBRARY = ctypes.CDLL(ctypes.util.find_library("m"))
try:
    VERSION = subprocess.run(["nvidia-smi"], capture_output=True, check=True).stdout
except (OSError, subprocess.CalledProcessError):
    VERSION = b""
try:
    os.sched_setaffinity(0, os.sched_getaffinity(0))
    os.nice(0)
except OSError:
    pass


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.cat([torch.nn.functional.gelu(part) for part in x.chunk(CORES)])
