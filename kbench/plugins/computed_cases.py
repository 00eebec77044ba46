"""`CASES` that is no literal: the value is computed by running the file, which rooms above this one can do."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from kbench.core.errors import PluginError

Compute = Callable[[Path], Any]
"""Run a problem's file in a sandboxed child, or look up what that gave before; return its `CASES`."""


class _Process:
    """State of this process: the way to compute `CASES`."""

    compute: Compute | None = None


def compute_by(compute: Compute | None) -> None:
    """Set how this process computes `CASES`; None: it refuses a file whose `CASES` is no literal."""
    _Process.compute = compute


def computed(path: Path, line: int) -> Any:
    """Return the value of a file's `CASES`. Raises PluginError."""
    if _Process.compute is None:
        raise PluginError(
            f"{path}, line {line}: CASES is no literal, and this process runs no file",
            "write the values out, or use the command line",
        )
    return _Process.compute(path)
