"""Failures of a child: an exit code, a log, or an exception that it reported, as a status with a reason."""

import re
import signal

from kbench.core.model import Status
from kbench.core.printable import printable
from kbench.process.channel import Message, both_ends

KILLED = re.compile(r"\bSIGKILL\b|\bKilled\b|\bsignal 9\b|\berror code -9\b")
"""Words of `explain_exit`, gcc, clang, nvcc, Triton and Python for a killed process. All that they bring is a second
try, so that a solution may say them as well."""
STARVED = "the machine had no memory left and the system killed processes: run less beside this, or a smaller case"
ILLEGAL_ACCESS = re.compile(r"illegal memory access|misaligned address|illegal address|invalid address space", re.I)
OUT_OF_MEMORY = re.compile(
    r"out of memory|OutOfMemoryError|MemoryError|can't allocate memory|bad_alloc|ALLOC(ATION)?_FAILED"
    r"|NOT_INITIALIZED when calling `?cu\w+Create",
    re.I,
)
"""Words of torch, C++ and NVIDIA's libraries; a library whose handle finds no memory is not initialised."""
LAUNCH_FAILED = re.compile(
    r"CUDA error|CUDA driver error|cudaError|unspecified launch failure|invalid configuration", re.I
)


class ChildError(Exception):
    """A child that gave no usable answer, as a status with a reason and the tail of what it printed."""

    def __init__(self, status: Status, reason: str, log: str = ""):
        super().__init__(reason)
        self.status = status
        self.reason = printable(reason)
        self.log = log


def explain_exit(code: int | None, log: str, *, starved: bool = False) -> tuple[Status, str]:
    """Map an exit code and the log's tail to a status. Codes above 128 are a shell's, for a signal.

    `code` is None of a process that closed its channel and has not ended. `starved` is whether the system killed any
    processes for lack of memory while this one lived; one that has just been killed takes its time to end.
    """
    if starved and code in (None, -signal.SIGKILL, 128 + signal.SIGKILL):
        return Status.OUT_OF_MEMORY, STARVED
    if code is None:
        return Status.PROTOCOL_ERROR, "the process closed its channel and went on"
    number = -code if code < 0 else code - 128
    if number in signal.valid_signals():
        try:
            name = signal.Signals(number).name
        except ValueError:
            name = f"signal {number}"
        if number == signal.SIGKILL:
            return Status.CRASHED, "the process was killed (SIGKILL), perhaps by the system for lack of memory"
        if OUT_OF_MEMORY.search(log):
            return Status.OUT_OF_MEMORY, f"the process died of {name} after it ran out of memory"
        if ILLEGAL_ACCESS.search(log):
            return Status.ILLEGAL_ACCESS, f"the process died of {name} after an illegal memory access on the device"
        return Status.CRASHED, f"the process died of {name}"
    return Status.EXITED, f"the process exited with code {code} before it answered"


def reported(answer: Message, log: str) -> ChildError:
    """Turn a failure that a child reported itself into a ChildError; its words can only count against it."""
    error = answer["error"] if isinstance(answer["error"], dict) else {"message": answer["error"]}
    stage, kind, message, trace = (str(error.get(name, "")) for name in ("stage", "type", "message", "traceback"))
    status = classify(stage, kind, message)
    text = "\n".join(part for part in (log, both_ends(trace)) if part)
    return ChildError(status, headline(f"{kind}: {message}".lstrip(": "))[:500] or "no reason given", text)


def headline(text: str) -> str:
    """Return the first line of an exception's text, and the last one where the first announces it, as Triton's do."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].endswith(":"):
        return f"{lines[0]} {lines[-1]}"
    return lines[0].rstrip(": ") if lines else ""


def classify(stage: str, kind: str, message: str) -> Status:
    """Return the status of a candidate's exception, by its stage and its text."""
    if OUT_OF_MEMORY.search(f"{kind} {message}"):
        return Status.OUT_OF_MEMORY
    if ILLEGAL_ACCESS.search(message):
        return Status.ILLEGAL_ACCESS
    if stage == "build":
        return Status.BUILD_FAILED
    if LAUNCH_FAILED.search(f"{kind} {message}"):
        return Status.LAUNCH_FAILED
    by_stage = {"import": Status.IMPORT_FAILED, "init": Status.INIT_FAILED, "output": Status.WRONG_OUTPUT}
    return by_stage.get(stage, Status.RAISED)


def is_of_the_device(error: Exception) -> bool:
    """Return whether an exception means that memory ran out or the device failed."""
    text = f"{type(error).__name__}: {error}"
    return isinstance(error, MemoryError) or any(
        pattern.search(text) for pattern in (OUT_OF_MEMORY, LAUNCH_FAILED, ILLEGAL_ACCESS)
    )
