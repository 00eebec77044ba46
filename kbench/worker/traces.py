"""Tracebacks of a solution: its own lines alone, the one that raised first."""

import traceback
from pathlib import Path

MOST_FRAMES = 8
OWN = Path(__file__).parent.parent
CONTENT = tuple(str(OWN / name) for name in ("solutions", "kernels", "attacks", "problems"))
"""Folders within kbench whose code is a solution's or a problem's."""


def is_machinery(path: str) -> bool:
    """Return whether a file is kbench's, torch's or Python's own import system: no place to look for the fault."""
    if path.startswith("<frozen"):
        return True
    if path.startswith(CONTENT):
        return False
    folders = Path(path).parts
    below = folders[folders.index("site-packages") + 1] if "site-packages" in folders[:-1] else ""
    return path.startswith(str(OWN) + "/") or below in {"torch", "functorch", "torch.py"}


def trace_of(error: BaseException) -> str:
    """Describe an exception: the solution's lines from where it was raised outwards, then what was raised.

    Frames of kbench and torch are left out, unless there are no others.
    """
    told = traceback.TracebackException.from_exception(error, capture_locals=False)
    frames = [frame for frame in told.stack if not is_machinery(frame.filename)] or list(told.stack)
    lines = []
    for number, frame in enumerate(reversed(frames[-MOST_FRAMES:])):
        said = f": {frame.line}" if frame.line else ""
        lines.append(f"{'  called from ' if number else ''}{frame.filename}:{frame.lineno}, in {frame.name}{said}\n")
    return "".join([*lines, *told.format_exception_only()])
