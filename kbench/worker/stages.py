"""Which stage of a solution's work an exception comes from, and its description for the judge."""

import re
import subprocess
import traceback
from pathlib import Path

from kbench.build.extensions import BuildError
from kbench.catalog.script import exit_of, import_advice
from kbench.core import traces
from kbench.process.channel import Message, both_ends
from kbench.worker.denied import why_denied

LOADS = frozenset({"import", "init"})
"""Stages in which a file that ends its process is reported as one that raised."""
UNDEFINED = re.compile(r"undefined symbol: (\w+)")


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
    kind, message, trace = type(error).__name__, _message(error), traces.trace_of(error)
    if output := _program_output(error):
        kind, message = "Error building extension", next(filter(traces.COMPILER_ERROR.search, output.splitlines()))
        trace = f"{trace}\n{output}"
    if isinstance(error, BuildError) or "Error building extension" in f"{kind}: {message}" or "CUDA_HOME" in message:
        stage = "build"
    return {"stage": stage, "type": kind, "message": both_ends(message), "traceback": both_ends(trace)}


def _message(error: BaseException) -> str:
    """Return what an exception says, with what it leaves out."""
    if isinstance(error, SystemExit):
        return exit_of(error)
    if isinstance(error, ImportError):
        advice = import_advice(error) or _undefined(error)
        return f"{error} ({advice})" if advice else str(error)
    return f"{error}{why_denied(error)}"


def _undefined(error: ImportError) -> str:
    """Return the function that a library misses, as C++ writes it."""
    symbol = UNDEFINED.search(str(error))
    if symbol is None:
        return ""
    import torch

    name = torch._C._demangle(symbol[1])  # noqa: SLF001 - what torch itself prints symbols with
    return f"`{name}` is declared and called, but no source defines it with these types: compare both signatures"


def _program_output(error: BaseException) -> str:
    """Return a compiler's output whose bytes are no UTF-8, so that an error of decoding took the place of its own."""
    if not isinstance(error, UnicodeDecodeError):
        return ""
    frames = traceback.extract_tb(error.__traceback__)
    reads = any(Path(frame.filename) == Path(subprocess.__file__) for frame in frames)
    output = bytes(error.object).decode(errors="replace")
    is_compilers = reads or isinstance(error.__context__, subprocess.CalledProcessError)
    return output if is_compilers and traces.COMPILER_ERROR.search(output) else ""
