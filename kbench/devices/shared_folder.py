"""A folder that every user may write to, and that one process at a time may lock."""

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from kbench.core.errors import MachineError

FOLDER_MODE = 0o777
"""Mode without the sticky bit, with which files of another user's dead process could not be removed."""
POLL_S = 0.001
GRACE_S = 2.0
"""Chosen. Wait after which the holder is reported; a folder is usually held for less than 1 ms."""


@contextlib.contextmanager
def guarded(folder: Path, report: Callable[[str], None]) -> Iterator[None]:
    """Lock a folder, which is made if it is missing, inside a `with` block. Raises MachineError.

    `report` is called repeatedly if the wait exceeds GRACE_S; its exception ends the wait.
    """
    began = time.monotonic()
    while True:
        with _opened(folder) as guard:
            if _hold(folder, guard):
                try:
                    yield
                finally:
                    # Unlock explicitly, since a child that is being started may have a copy of the descriptor.
                    fcntl.flock(guard, fcntl.LOCK_UN)
                return
        if time.monotonic() - began > GRACE_S:
            report(f"a process that was stopped while it held {folder} (`fuser {folder}` names it)")
        time.sleep(POLL_S)


def lock(file: int, how: int) -> bool:
    """Lock an open file without waiting; return whether it is locked now. Raises OSError."""
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def unusable(folder: Path, error: OSError) -> MachineError:
    """Return the error for a folder that cannot be used, with a hint."""
    hint = f"`ls -ld {folder.parent} {folder}` and `df -i {folder.parent}` show the cause"
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
    """Open a folder that every user may write to, and make it if missing. Raises OSError, also for a link."""
    with contextlib.suppress(FileExistsError):
        folder.mkdir()
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    status = os.fstat(opened)
    if status.st_uid == os.geteuid() and status.st_mode & 0o7777 != FOLDER_MODE:
        with contextlib.suppress(OSError):
            os.fchmod(opened, FOLDER_MODE)
    return opened


def _hold(folder: Path, guard: int) -> bool:
    """Lock the folder, if it is free and was not removed since it was opened."""
    try:
        return lock(guard, fcntl.LOCK_EX) and os.path.samestat(os.fstat(guard), folder.stat())
    except FileNotFoundError:
        return False
    except OSError as error:
        raise unusable(folder, error) from error
