"""A folder that every user may write to, and that one process at a time may hold still."""

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from kbench.core.errors import MachineError

FOLDER_MODE = 0o777
"""Not sticky: there the kernel would refuse to remove what another user's dead process left."""
POLL_S = 0.001
GRACE_S = 2.0
"""Chosen. A folder is held for less than 1 ms (docs/adr/0022); who waits longer than this is told."""


@contextlib.contextmanager
def guarded(folder: Path, tell: Callable[[str], None]) -> Iterator[None]:
    """Hold a folder, made where missing, against every other process that does the same. Raises MachineError.

    `tell` hears, again and again, where that takes above GRACE_S; what it raises ends the wait.
    """
    began = time.monotonic()
    while True:
        with _opened(folder) as guard:
            if _hold(folder, guard):
                try:
                    yield
                finally:
                    # Said as such, since a child that is being started may have a copy of the descriptor.
                    fcntl.flock(guard, fcntl.LOCK_UN)
                return
        if time.monotonic() - began > GRACE_S:
            tell(f"a process that was stopped while it held {folder} (`fuser {folder}` names it)")
        time.sleep(POLL_S)


def lock(file: int, how: int) -> bool:
    """Lock an open file without waiting; return whether it is locked now. Raises OSError."""
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def unusable(folder: Path, error: OSError) -> MachineError:
    """Describe a folder that cannot be used, and what may help."""
    hint = f"`ls -ld {folder.parent} {folder}` and `df -i {folder.parent}` show what is in the way"
    if isinstance(error, PermissionError):
        hint = f"every user must be able to change files there: `chmod 777 {folder.parent} {folder}`"
    return MachineError(f"the queue for the device in {folder} cannot be used: {error.strerror}", hint)


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[int]:
    try:
        os.close(_open_to_all(folder.parent))
        guard = _open_to_all(folder)
    except OSError as error:
        raise unusable(folder, error) from error
    try:
        yield guard
    finally:
        os.close(guard)


def _open_to_all(folder: Path) -> int:
    """Open a folder that every user may write to, made where it is missing. Raises OSError, also for a link."""
    with contextlib.suppress(FileExistsError):
        folder.mkdir()
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    status = os.fstat(opened)
    if status.st_uid == os.geteuid() and status.st_mode & 0o7777 != FOLDER_MODE:
        with contextlib.suppress(OSError):
            os.fchmod(opened, FOLDER_MODE)
    return opened


def _hold(folder: Path, guard: int) -> bool:
    """Lock the folder, if it is free, and still the one that was opened: somebody may have removed it."""
    try:
        return lock(guard, fcntl.LOCK_EX) and os.path.samestat(os.fstat(guard), folder.stat())
    except FileNotFoundError:
        return False
    except OSError as error:
        raise unusable(folder, error) from error
