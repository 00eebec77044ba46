"""Which stage of a solution's work an exception comes from, and its description for the judge."""

import errno
import re
import traceback

from kbench.build.extensions import BuildError
from kbench.core import traces
from kbench.sandbox import namespaces
from kbench.wire.channel import Message, both_ends

STARTS_A_PROCESS = re.compile(r"fork|spawn|exec")
"""In the line that raised: the call that starts a process, as `os`, `subprocess` and `multiprocessing` write it."""


class StageError(Exception):
    """An exception of the solution, with the stage in which it was raised."""

    def __init__(self, stage: str):
        super().__init__(stage)
        self.stage = stage


class Stage:
    """Marks which stage an exception comes from; exceptions of builds keep their own mark."""

    def __init__(self, name: str):
        self._name = name

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, StageError):
            raise StageError(self._name) from error


def describe(error: BaseException) -> Message:
    """Describe an exception for the judge."""
    stage = ""
    if isinstance(error, StageError) and error.__cause__ is not None:
        stage, error = error.stage, error.__cause__
    if isinstance(error, BuildError) or "Error building extension" in str(error) or "CUDA_HOME" in str(error):
        stage = "build"
    return {
        "stage": stage,
        "type": type(error).__name__,
        "message": both_ends(f"{error}{namespaces.why_closed(error) or _why_refused(error)}"),
        "traceback": both_ends(traces.trace_of(error)),
    }


def _why_refused(error: BaseException) -> str:
    """Return what the error of a solution does not say by itself, empty for most."""
    frames = traceback.extract_tb(error.__traceback__)
    if isinstance(error, ImportError) and "attempted relative import" in str(error):
        return " (a solution is a file, not a package: import the file beside it without the dot)"
    denied = isinstance(error, PermissionError) and error.errno == errno.EPERM and error.filename is None
    if denied and frames and STARTS_A_PROCESS.search(frames[-1].line or ""):
        return " (only its build may start programs: keep what they make in a fixed folder, such as /tmp/NAME)"
    return ""
