"""Rungs: levels of restriction for an untrusted process, and the functions that apply them.

`command` wraps a command line so that it starts under a supervisor (see `process_tree`), `restrict_self` is the
child's first act. `rung_probe.reached` finds the highest rung that works here. docs/threat-model.md
says what each rung stops. Standard library only; nothing here imports torch.
"""

import contextlib
import ctypes
import os
import resource
import signal
import sys
from collections.abc import Mapping, Sequence
from enum import IntEnum
from pathlib import Path
from typing import Any

from kbench.sandbox import landlock, libc, namespaces, process_tree, seccomp
from kbench.sandbox.namespaces import Surroundings

PR_CAPBSET_DROP = 24
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
CAPABILITY_VERSION_3 = 0x20080522
MOST_CAPABILITIES = 64

ROOT = Path(__file__).resolve().parents[2]
SUPERVISOR = """
import sys
sys.path.append(sys.argv[1])
from kbench.sandbox import process_tree
process_tree.main(*sys.argv[2:])
"""

MAX_OPEN_FILES = 4096
MAX_FILE_BYTES = 8 << 30
MAX_PROCESSES = 2048
OUT_OF_MEMORY_SCORE = "1000"


class Rung(IntEnum):
    """A level of restriction for untrusted code. A higher rung stops more; docs/threat-model.md has the table."""

    NONE = 0
    LIMITS = 1
    NAMESPACES = 2
    LANDLOCK = 3
    FULL = 4

    @property
    def description(self) -> str:
        """Restrictions of the rung, in words."""
        return DESCRIPTIONS[self]

    @property
    def has_namespaces(self) -> bool:
        """True if the process gets its own user, PID, IPC, mount and network namespaces."""
        return self in (Rung.NAMESPACES, Rung.FULL)

    @property
    def has_landlock(self) -> bool:
        """True if the process can write below its own folders only."""
        return self >= Rung.LANDLOCK


DESCRIPTIONS = {
    Rung.NONE: "no sandbox: the process can do whatever its user can",
    Rung.LIMITS: "supervised tree, resource limits, no capabilities, system-call filter; it can write files",
    Rung.NAMESPACES: "limits, own PID, IPC, mount, user, network namespaces, own /tmp and /dev/shm; it can write files",
    Rung.LANDLOCK: "limits, Landlock: writes in its scratch folder only, not in /tmp, no network, no signals outwards",
    Rung.FULL: "limits, Landlock and namespaces, with a /tmp and a /dev/shm of its own",
}


def harden_judge() -> None:
    """Keep processes of the same user from reading or tracing this one, and its memory out of core files."""
    process_tree.prctl(process_tree.PR_SET_DUMPABLE, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def command(rung: Rung, argv: Sequence[str], surroundings: Surroundings | None = None) -> list[str]:
    """Return the command line for this process to run `argv` as the rung wants it; `argv` then calls `restrict_self`.

    Inherited descriptors and the environment pass through. Rungs with namespaces give it those `surroundings`.
    End it with `kill_tree`, not by a signal.
    """
    mode = supervision(rung)
    if mode is None:
        return list(argv)
    around = surroundings.to_json() if surroundings is not None else ""
    return [sys.executable, "-I", "-S", "-c", SUPERVISOR, str(ROOT), str(os.getpid()), mode, around, *argv]


def supervision(rung: Rung) -> str | None:
    """Return how `tree.supervise` is to lead a process on this rung, or None where nobody supervises it."""
    if rung == Rung.NONE:
        return None
    return "namespaces" if rung.has_namespaces else "plain"


def restrict_self(
    rung: Rung,
    *,
    writable: Sequence[Path],
    temporary: Path | None = None,
    hidden: Sequence[Path] = (),
    readable: Sequence[Path] = (),
    allow_exec: bool,
    then_exec: bool = False,
) -> None:
    """Restrict this process for the rest of its life. Call it before any thread or CUDA exists.

    With Landlock it can change files below `writable` only, in its own /dev/shm if namespaces give it one, and in /tmp
    if namespaces mounted `temporary` there. It cannot read `hidden` paths, except `readable` ones below them. Without
    `allow_exec` it can start no programs or processes; threads are allowed. With `then_exec` the process executes
    another program next, which ends all threads but this one. Raises OSError where the kernel refuses, so a process
    that returns from here is restricted.
    """
    if rung == Rung.NONE:
        return
    if len(os.listdir("/proc/self/task")) != 1 and not then_exec:  # noqa: PTH208
        raise OSError("a sandbox must be entered before the first thread starts")
    _limit_resources()
    _drop_capabilities()
    process_tree.prctl(PR_SET_NO_NEW_PRIVS, 1)
    if rung.has_landlock:
        own = [Path(namespaces.SHARED_MEMORY)] if rung.has_namespaces else []
        if rung.has_namespaces and temporary is not None and namespaces.has(temporary):
            own.append(namespaces.place())
        landlock.restrict(
            writable=[*writable, *own], hidden=hidden, readable=readable, allow_exec=allow_exec, then_exec=then_exec
        )
    _filter_calls(rung, allow_exec=allow_exec, connect=False)


def restrict_as_ordered(orders: Mapping[str, Any], *, then_exec: bool = False) -> None:
    """Apply the sandbox of an order to this process before it knows a solution, or to the program that it becomes."""
    restrict_self(
        Rung(orders["rung"]),
        writable=[Path(path) for path in orders["writable"]],
        temporary=Path(orders["temporary"]),
        hidden=[Path(path) for path in orders.get("hidden", ())],
        readable=[Path(sys.pycache_prefix)] if sys.pycache_prefix is not None else [],
        allow_exec=orders["allow_exec"],
        then_exec=then_exec,
    )


def restrict_tool(rung: Rung) -> None:
    """Restrict a tool of kbench that starts an untrusted process and exchanges messages with it over a local socket.

    It may connect to local sockets. It has no Landlock, which its child would inherit: CUDA writes the child's folder
    in /proc, which does not exist yet. The child calls `restrict_self` with `then_exec`. Raises OSError.
    """
    if rung == Rung.NONE:
        return
    _limit_resources()
    _drop_capabilities()
    process_tree.prctl(PR_SET_NO_NEW_PRIVS, 1)
    _filter_calls(rung, allow_exec=True, connect=True)


def _filter_calls(rung: Rung, *, allow_exec: bool, connect: bool) -> None:
    version = landlock.abi()
    seccomp.install(
        allow_exec=allow_exec,
        connect=connect,
        # The filter does, more coarsely, the things that Landlock cannot do on this kernel.
        signals=rung.has_namespaces or (rung.has_landlock and version >= landlock.ABI_SCOPES),
        others=rung.has_namespaces,
        truncate=not rung.has_landlock or version >= landlock.ABI_TRUNCATE,
    )


def _limit_resources() -> None:
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_NOFILE, MAX_OPEN_FILES)
    _lower(resource.RLIMIT_FSIZE, MAX_FILE_BYTES)
    # The limit counts all threads of the user; the kernel does not apply it to root.
    _lower(resource.RLIMIT_NPROC, _threads_of_user() + MAX_PROCESSES)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(OUT_OF_MEMORY_SCORE)
    for number in (signal.SIGXFSZ, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)


def _lower(limit: int, value: int) -> None:
    _soft, hard = resource.getrlimit(limit)
    if hard == resource.RLIM_INFINITY or hard > value:
        hard = value
    resource.setrlimit(limit, (hard, hard))


def _threads_of_user() -> int:
    count = 0
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if entry.stat().st_uid == os.getuid():
                    count += len(os.listdir(f"/proc/{entry.name}/task"))  # noqa: PTH208
    return count


class _CapabilityHeader(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


def _drop_capabilities() -> None:
    """Give up every capability: as root they reach past a sandbox, into the judge's memory for one."""
    for capability in range(MOST_CAPABILITIES):
        with contextlib.suppress(OSError):  # one that this kernel does not know, or that is not its to drop
            process_tree.prctl(PR_CAPBSET_DROP, capability)
    with contextlib.suppress(OSError):
        process_tree.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    nothing = (ctypes.c_uint32 * 6)()
    libc.call("capset", ctypes.byref(_CapabilityHeader(CAPABILITY_VERSION_3, 0)), nothing)
