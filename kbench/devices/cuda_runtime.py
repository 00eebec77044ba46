"""The error of an unchecked CUDA launch: every loaded copy of CUDA's runtime keeps its last one."""

import contextlib
import ctypes
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

NAME = "libcudart"
MAPS = Path("/proc/self/maps")


class Runtimes:
    """The shared copies of CUDA's runtime in this process; a statically linked copy cannot be asked."""

    def __init__(self, libraries: Iterable[Any]):
        self._libraries = tuple(libraries)
        for library in self._libraries:
            library.cudaGetErrorString.restype = ctypes.c_char_p

    def take_error(self) -> str:
        """Return CUDA's text of the last error and clear it; empty without an error."""
        found = ""
        for library in self._libraries:
            if code := library.cudaGetLastError():
                found = (library.cudaGetErrorString(code) or b"unknown error").decode(errors="replace")
        return found


def loaded() -> Runtimes:
    """Find the runtimes that this process has loaded so far."""
    lines = MAPS.read_text(errors="replace").splitlines()
    paths = dict.fromkeys(line.split(maxsplit=5)[5] for line in lines if f"/{NAME}" in line)
    found = []
    for path in paths:
        with contextlib.suppress(OSError):  # deleted since
            found.append(ctypes.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_NOW))
    return Runtimes(found)
