"""Landlock: a process gives up rights on files, TCP, signals and abstract sockets, for good and unprivileged.

The numbers are the kernel's (Documentation/userspace-api/landlock.rst), the same on every architecture.
"""

import ctypes
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from kbench.sandbox import libc

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
GET_VERSION = 1
RULE_PATH_BENEATH = 1

EXECUTE = 1 << 0
WRITE_FILE = 1 << 1
READ_FILE = 1 << 2
READ_DIR = 1 << 3
MAKE_CHAR = 1 << 6
MAKE_BLOCK = 1 << 11
TRUNCATE = 1 << 14
IOCTL_DEV = 1 << 15
RIGHTS_OF_A_FILE = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
ALL_RIGHTS_BY_ABI = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1, 5: (1 << 16) - 1}
TCP_BIND_AND_CONNECT = 3
SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS = 3

ABI_TRUNCATE = 3
ABI_TCP = 4
ABI_SCOPES = 6

OWN_THREADS = Path("/proc/self/task")
"""CUDA names its threads through these files; where it cannot, it refuses to start (error 304)."""
OPEN_DEVICES = ("null", "zero", "full", "random", "urandom")
GPU_DEVICES = "nvidia*"


class _RulesetAttributes(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("tcp", ctypes.c_uint64), ("scopes", ctypes.c_uint64))


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("rights", ctypes.c_uint64), ("descriptor", ctypes.c_int32))


def _call(number: int, *arguments: object) -> int:
    return libc.call("syscall", ctypes.c_long(number), *arguments, called="landlock")


def abi() -> int:
    """Return the kernel's Landlock version; 0 where it has none or it is switched off."""
    try:
        return _call(CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(GET_VERSION))
    except OSError:
        return 0


def restrict(
    *,
    writable: Sequence[Path],
    hidden: Sequence[Path],
    readable: Sequence[Path],
    allow_exec: bool,
    then_exec: bool = False,
) -> None:
    """Let this thread, and all that it starts, write below `writable` only and read everything except `hidden`.

    Paths of `readable` below a hidden folder can still be read. With `then_exec` the restriction fits the program that
    this process executes next. Devices are denied except the GPU's and harmless ones. TCP, signals to other processes
    and their abstract sockets are denied if the kernel's version of Landlock can do so. The caller has set
    no_new_privs. Raises OSError.
    """
    version = abi()
    handled = ALL_RIGHTS_BY_ABI[max(1, min(version, max(ALL_RIGHTS_BY_ABI)))]
    attributes = _RulesetAttributes(
        files=handled,
        tcp=TCP_BIND_AND_CONNECT if version >= ABI_TCP else 0,
        scopes=SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS if version >= ABI_SCOPES else 0,
    )
    # Older kernels accept the longer structure as long as the fields that they do not know are zero.
    size = ctypes.c_size_t(ctypes.sizeof(attributes))
    ruleset = _call(CREATE_RULESET, ctypes.byref(attributes), size, ctypes.c_uint32(0))
    try:
        for path, rights in _rules(writable, hidden, readable, allow_exec=allow_exec):
            _allow(ruleset, path, rights & handled)
        # Kept open for good: a rule on /proc holds only as long as the kernel keeps this very directory in mind.
        kept = os.open(OWN_THREADS, os.O_PATH | os.O_CLOEXEC)
        os.set_inheritable(kept, then_exec)
        _call(RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0))
    finally:
        os.close(ruleset)


def _rules(
    writable: Sequence[Path], hidden: Sequence[Path], readable: Sequence[Path], *, allow_exec: bool
) -> Iterator[tuple[Path, int]]:
    """Yield what to allow. A rule holds for all below its path: a hidden path is one that no rule covers."""
    execute = EXECUTE if allow_exec else 0
    yield Path("/"), READ_DIR
    for path in visible([Path("/")], [Path("/dev"), *(Path(os.path.realpath(p)) for p in hidden)]):
        # A rule binds to what a link leads to, which may be hidden; the target has a rule of its own if not.
        if not path.is_symlink():
            yield path, READ_FILE | READ_DIR | execute
    for path in readable:
        yield path, READ_FILE | READ_DIR
    for path in writable:
        yield path, ALL_RIGHTS_BY_ABI[5] & ~(MAKE_CHAR | MAKE_BLOCK | IOCTL_DEV | EXECUTE) | execute
    yield OWN_THREADS, READ_FILE | READ_DIR | WRITE_FILE | TRUNCATE
    for device in [*(Path("/dev") / name for name in OPEN_DEVICES), *Path("/dev").glob(GPU_DEVICES)]:
        yield device, READ_FILE | WRITE_FILE | IOCTL_DEV


def visible(roots: Iterable[Path], hidden: Iterable[Path]) -> Iterator[Path]:
    """Yield the highest paths from `roots` down that together cover all but what lies below `hidden`."""
    closed = set(hidden)
    above = {folder for path in closed for folder in path.parents}  # a machine may hide hundreds among hundreds
    for root in roots:
        yield from _visible(root, closed, above)


def _visible(root: Path, hidden: set[Path], above: set[Path]) -> Iterator[Path]:
    if root in hidden:
        return
    if root not in above:
        yield root
        return
    try:
        entries = list(os.scandir(root))
    except OSError:
        return
    for entry in entries:
        yield from _visible(Path(entry.path), hidden, above)


def _allow(ruleset: int, path: Path, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # gone, or out of reach anyway
    try:
        if not path.is_dir():
            rights &= RIGHTS_OF_A_FILE
        rule = _PathBeneath(rights=rights, descriptor=descriptor)
        kind = ctypes.c_int(RULE_PATH_BENEATH)
        _call(ADD_RULE, ctypes.c_int(ruleset), kind, ctypes.byref(rule), ctypes.c_uint32(0))
    finally:
        os.close(descriptor)
