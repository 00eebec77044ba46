"""The error of an unchecked CUDA launch: every loaded copy of CUDA's runtime keeps its last one."""

import contextlib
import ctypes
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

NAME = "libcudart"
MAPS = Path("/proc/self/maps")


def loaded() -> list[Any]:
    """Find the shared runtimes that this process has loaded so far; a statically linked copy cannot be asked."""
    lines = MAPS.read_text(errors="replace").splitlines()
    found = []
    for path in dict.fromkeys(line.split(maxsplit=5)[5] for line in lines if f"/{NAME}" in line):
        with contextlib.suppress(OSError):  # deleted since
            found.append(ctypes.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_NOW))
    return found


def take_error(runtimes: Iterable[Any]) -> str:
    """Return CUDA's text of the last error and clear it in all runtimes; empty without an error."""
    found = ""
    for runtime in runtimes:
        if code := runtime.cudaGetLastError():
            runtime.cudaGetErrorString.restype = ctypes.c_char_p
            found = (runtime.cudaGetErrorString(code) or b"unknown error").decode(errors="replace")
    return found
