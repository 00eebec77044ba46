"""An exception of a solution for the judge: its stage, its description, and what the sandbox has to do with it."""

import errno
import os
import re
import socket
import subprocess
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from kbench.build.extensions import BuildError
from kbench.catalog.script import exit_of, import_advice
from kbench.core import traces
from kbench.process.channel import Message, both_ends
from kbench.sandbox import namespaces

LOADS = frozenset({"import", "init"})
"""Stages in which a file that ends its process is reported as one that raised."""
UNDEFINED = re.compile(r"undefined symbol: (\w+)")
BEYOND = frozenset({errno.EPERM, errno.EACCES, errno.EROFS})
"""Errors by which the filter of system calls, Landlock and a read-only mount refuse."""
MAX_CAUSES = 8
"""Exceptions of one chain that are looked at."""
NETWORK = "use the network and local services", "put what it needs beside its file before the run"
WRITE = "write {name}", "write to a new folder of `tempfile.mkdtemp()`, or below /tmp"
READ = "read {name}", "keep what it needs beside its file; results, caches, `.git` and `~/.*` are closed to solutions"
START = (
    "start {name} while it is judged",
    "start it at import, in the constructor or in the first call, and keep what it makes in a folder such as /tmp/NAME",
)
CALLS = (
    (re.compile(r"\b(\w*fork\w*|posix_spawnp?|spawn\w*|exec[lv]\w*|popen)\("), START),
    (re.compile(r"\b_?socket\.|\b(connect\w*|create_connection|bind|sendto|getaddrinfo)\("), NETWORK),
    (
        re.compile(r"\b(SemLock|shm_open)\("),
        ("share memory or semaphores with other processes", "compute in this process, with threads if need be"),
    ),
    (
        re.compile(r"\b(kill\w*|pidfd_send_signal)\("),
        ("send signals to other processes", "leave other processes alone"),
    ),
    (
        re.compile(r"\b(sched_set\w+|setpriority|prlimit|setrlimit|nice)\("),
        ("change the priority or the limits of other processes", "set threads with `torch.set_num_threads`"),
    ),
)
"""By the line that raised: the call that was tried, in words, and what to do instead."""


LIMITS = {
    errno.EMFILE: " (the sandbox allows 4,096 open files: close files that are no longer used)",
    errno.EFBIG: " (the sandbox allows files of 8 GiB: write several smaller ones)",
}
"""By the error of whatever exceeds a limit of the sandbox: the limit, and what to do."""


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
    killed = isinstance(error.__cause__, subprocess.CalledProcessError) and error.__cause__.returncode < 0
    return f"{error}: {error.__cause__}" if killed else f"{error}{why_denied(error)}"


def _undefined(error: ImportError) -> str:
    """Return the function that a library misses, as C++ writes it."""
    if (symbol := UNDEFINED.search(str(error))) is None:
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


def why_denied(error: BaseException) -> str:
    """Return what the sandbox has to do with an exception, in words; empty where it has nothing to do with it."""
    for each in _chain(error):
        words = namespaces.why_closed(each) or _words(each)
        if words:
            return words
    return ""


def _words(error: BaseException) -> str:
    if isinstance(error, socket.gaierror):
        return _sentence(*NETWORK)
    if not isinstance(error, OSError):
        return ""
    if error.errno not in BEYOND:
        return LIMITS.get(error.errno or 0, "")
    if program := _program(error.__traceback__):
        return _sentence(START[0].format(name=program), START[1])
    name = _quoted(error.filename)
    frames = traceback.extract_tb(error.__traceback__)
    line = (frames[-1].line or "") if frames else ""
    for pattern, (tried, instead) in CALLS:
        if pattern.search(line):
            return _sentence(tried.format(name=name or "programs"), instead)
    if not name:
        return ""
    tried, instead = READ if _is_closed(os.fsdecode(error.filename)) else WRITE
    return _sentence(tried.format(name=name), instead)


def _sentence(tried: str, instead: str) -> str:
    return f" (the sandbox forbids a solution to {tried}: {instead})"


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception and what it was raised from, as long as there is something."""
    present: BaseException | None = error
    for _ in range(MAX_CAUSES):
        if present is None:
            return
        yield present
        reason = getattr(present, "reason", None)  # `urllib` keeps its cause there
        present = reason if isinstance(reason, BaseException) else present.__cause__ or present.__context__


def _program(trace: TracebackType | None) -> str:
    """Return the program that `subprocess` was to start, from its own frame."""
    while trace is not None:
        if trace.tb_frame.f_code.co_name == "_execute_child":
            arguments = trace.tb_frame.f_locals.get("args")
            first = arguments[0] if isinstance(arguments, list | tuple) and arguments else arguments
            return _quoted(first)
        trace = trace.tb_next
    return ""


def _quoted(name: object) -> str:
    if isinstance(name, bytes):
        name = os.fsdecode(name)
    return f"`{str(name)[:200]}`" if isinstance(name, str | Path) else ""


def _is_closed(name: str) -> bool:
    """Return whether a file exists and cannot even be read."""
    try:
        os.close(os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False
