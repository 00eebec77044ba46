"""The temporary folder of a command: removed at its end, or by the next command where it was killed."""

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from kbench.core.errors import MachineError
from kbench.sandbox import removal

PREFIX = "kbench-work-"


@contextlib.contextmanager
def work_folder() -> Iterator[Path]:
    """Make a folder for a `with` block, and remove those of killed commands. Raises MachineError.

    A command keeps its folder locked; the kernel drops the lock of a process that ends, however it ends. Processes of
    a killed command may live a second longer and make files in a folder that is being removed: it is removed twice.
    """
    remove_abandoned()
    folder, lock = _locked()
    try:
        yield folder
    finally:
        removal.remove(folder)
        os.close(lock)
        remove_abandoned()


def remove_abandoned() -> None:
    """Remove the folders that no living command has locked, as far as this user may."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                removal.remove(folder)
            finally:
                os.close(lock)


def _locked() -> tuple[Path, int]:
    """Make a folder and lock it, before another command can take it for abandoned."""
    while True:
        try:
            folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        except OSError as error:
            where = tempfile.gettempdir()
            raise MachineError(f"no folder can be made in {where}: {error.strerror}", "set another TMPDIR") from error
        with contextlib.suppress(OSError):
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            with contextlib.suppress(OSError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(lock), folder.stat()):
                    return folder, lock
            os.close(lock)
