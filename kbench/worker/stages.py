"""Which stage of a solution's work an exception comes from, and its description for the judge."""

import subprocess

from kbench.core import traces
from kbench.plugins.script import exit_of, import_advice
from kbench.wire.channel import Message, both_ends
from kbench.worker.denied import why_denied
from kbench.worker.extensions import BuildError

LOADS = frozenset({"import", "init"})
"""Stages in which a file that ends its process is reported as one that raised."""


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
        ends = isinstance(error, SystemExit) and self._name in LOADS
        if (isinstance(error, Exception) and not isinstance(error, StageError)) or ends:
            raise StageError(self._name) from error


def describe(error: BaseException) -> Message:
    """Describe an exception for the judge."""
    stage = ""
    if isinstance(error, StageError) and error.__cause__ is not None:
        stage, error = error.stage, error.__cause__
    message = _message(error)
    if isinstance(error, BuildError) or "Error building extension" in message or "CUDA_HOME" in message:
        stage = "build"
    return {
        "stage": stage,
        "type": type(error).__name__,
        "message": both_ends(message),
        "traceback": both_ends(traces.trace_of(error)),
    }


def _message(error: BaseException) -> str:
    """Return what an exception says, with what it leaves out."""
    if isinstance(error, SystemExit):
        return "; ".join(exit_of(error))
    if isinstance(error, ImportError):
        advice = import_advice(error)
        return f"{error} ({advice})" if advice else str(error)
    return f"{_compiler_output(error) or error}{why_denied(error)}"


def _compiler_output(error: BaseException) -> str:
    """Return what a failed program printed where its bytes are no UTF-8, so that the error of decoding replaced it."""
    failed = error.__context__
    if not isinstance(error, UnicodeDecodeError) or not isinstance(failed, subprocess.CalledProcessError):
        return ""
    return f"Error building extension: {bytes(error.object).decode(errors='replace')}"
