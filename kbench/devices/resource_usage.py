"""What compiled kernels say of themselves: registers and stack, as `cuobjdump` of the CUDA toolkit prints them."""

import re
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

from kbench.core.trace import LONGEST_NAME, KernelResources

NAME = "cuobjdump"
LIMIT_S = 60.0
MOST_FILES = 32
LINE = re.compile(r"Function (?P<name>\S+?):\s+REG:(?P<registers>\d+) STACK:(?P<stack>\d+)")
"""`-res-usage`, described in CUDA Binary Utilities. STACK has spilled registers and local arrays, of one thread."""


def parse(text: str) -> dict[str, KernelResources]:
    """Read the tool's text; of a kernel that is there for several architectures the last one, which is the newest."""
    return {
        found["name"]: KernelResources(
            name=found["name"][:LONGEST_NAME], registers=int(found["registers"]), stack_bytes=int(found["stack"])
        )
        for found in LINE.finditer(text)
    }


def resources(tool: Path, files: Iterable[Path]) -> Iterator[KernelResources]:
    """Yield the kernels in shared libraries and cubins, by their mangled names; files without any are passed over."""
    for file in sorted(files)[:MOST_FILES]:
        try:
            done = subprocess.run(
                [tool, "-res-usage", str(file)], capture_output=True, text=True, timeout=LIMIT_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        yield from parse(done.stdout).values()
