"""Tracebacks of a solution: its own lines alone, the one that raised first."""

import re
import traceback
from collections.abc import Sequence
from pathlib import Path

from kbench.core.printable import printable

MOST_FRAMES = 8
MOST_OF_A_SUMMARY = 200
OWN = Path(__file__).parent.parent
CONTENT = tuple(str(OWN / name) for name in ("solutions", "kernels", "selftest/corpus", "problems"))
"""Folders within kbench whose code is a solution's or a problem's."""
CRASHED = "Fatal Python error: "
CRASH_FRAME = re.compile(r'  File "(.*)", line [0-9]+ in .*')
"""A frame as `faulthandler` writes it."""
COMPILER_ERROR = re.compile(
    r"\berror\b\s*:|: error |\berror C\d+|undefined reference|cannot find -l|fatal error|nvcc fatal|"
    r"CUDA_HOME environment variable is not set|nvcc: not found"
)
STAGED = re.compile(r"\S*/extensions/")
LACKS_CUDA = {
    "cannot find -lc10_cuda": "its CUDA sources compile, but this torch was built without CUDA and cannot link them",
    "cusparse.h: No such file": "torch's headers for a GPU need those of CUDA's libraries: here is the compiler alone",
    "CUDA_HOME environment variable is not set": "no CUDA compiler: nvcc is not on PATH, and CUDA_HOME is not set",
}
"""Clearer texts for messages of torch about a missing compiler."""


def is_own(path: str) -> bool:
    """Return whether a file is kbench's, and holds no solution or problem."""
    return path.startswith(str(OWN) + "/") and not path.startswith(CONTENT)


def is_machinery(path: str) -> bool:
    """Return whether a file is kbench's, torch's or Python's own import system: no place to look for the fault."""
    if path.startswith("<frozen"):
        return True
    if path.startswith(CONTENT):
        return False
    if is_own(path):
        return True
    folders = Path(path).parts
    below = folders[folders.index("site-packages") + 1] if "site-packages" in folders[:-1] else ""
    return below in {"torch", "functorch", "torch.py"}


def trace_of(error: BaseException) -> str:
    """Describe an exception: the solution's lines (torch's if it has none) from the raise outwards, then the error."""
    formatted = traceback.TracebackException.from_exception(error, capture_locals=False)
    foreign = [frame for frame in formatted.stack if not is_own(frame.filename)]
    frames = [frame for frame in foreign if not is_machinery(frame.filename)] or foreign
    lines = []
    for number, frame in enumerate(reversed(frames[-MOST_FRAMES:])):
        said = f": {frame.line}" if frame.line else ""
        lines.append(f"{'  called from ' if number else ''}{frame.filename}:{frame.lineno}, in {frame.name}{said}\n")
    return "".join([*lines, *formatted.format_exception_only()])


def summary_of(error: BaseException) -> str:
    """Return an exception's type and the first line of its message."""
    return f"{type(error).__name__}: {printable(str(error)).partition(chr(10))[0]}"[:MOST_OF_A_SUMMARY]


def without_machinery(lines: Sequence[str]) -> list[str]:
    """Remove frames of kbench and torch from the text that `faulthandler` writes when a signal ends a process."""
    start = next((number for number, line in enumerate(lines) if line.startswith(CRASHED)), len(lines))
    crash = [line for line in lines[start:] if not line.startswith("Extension modules:")]
    frames = [(line, CRASH_FRAME.fullmatch(line)) for line in crash]
    return [*lines[:start], *(line for line, frame in frames if frame is None or not is_machinery(frame[1]))]


def significant_lines(lines: Sequence[str], most: int) -> list[str]:
    """Return up to `most` lines: the last ones, half of them from a compiler's first error on where that is before.

    A compiler notes a hundred lines of candidates after one call that matches none.
    """
    start = len(lines) - most
    first = next((number for number, line in enumerate(lines) if COMPILER_ERROR.search(line)), start)
    if first >= start:
        return [*lines[max(0, start) :]]
    error_lines, last = lines[first : first + most // 2 - 1], lines[most // 2 - most :]
    left = len(lines) - first - len(error_lines) - len(last)
    return [*error_lines, f"[{left} line{'' if left == 1 else 's'} left out]", *last]


def first_error(log: str) -> str | None:
    """Return the first compiler or linker error of a build log, on one line, without the build's own folder."""
    for line in log.splitlines():
        if COMPILER_ERROR.search(line):
            lacking = next((text for words, text in LACKS_CUDA.items() if words in line), None)
            return lacking or STAGED.sub("", line.strip())[:400]
    return None
