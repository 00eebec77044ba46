"""Words for what the sandbox denies a solution: what was tried, that the sandbox forbids it, and what to do instead."""

import errno
import os
import re
import socket
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from kbench.sandbox import namespaces

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
