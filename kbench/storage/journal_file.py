"""The file of a journal: append-only, one JSON line for each thing done, on the disk before it is reported.

After a kill, the next process that continues the journal cuts off an incomplete last line.
"""

import fcntl
import json
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from kbench.core.errors import MachineError, UsageError, did_you_mean
from kbench.storage.csvfile import ELSEWHERE, make_folder, write_failed

SUFFIX = ".journal.jsonl"


class JournalFile:
    """An open journal, locked against other writers; a context manager. `way_out` says where else to write.

    `whole_bytes` is the length to keep of a file that is there; None: the file must be new, or hold no whole line.
    """

    def __init__(self, path: Path, *, whole_bytes: int | None = None, way_out: str = ELSEWHERE):
        self.path = path
        self._whole_bytes = whole_bytes
        self._way_out = way_out
        self._descriptor = -1
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        """Open the file. Raises FileExistsError where a new one is there already, and MachineError."""
        make_folder(self.path, self._way_out)
        kept = self._whole_bytes or 0
        flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | (os.O_CREAT if self._whole_bytes is None else 0)
        try:
            self._descriptor = os.open(self.path, flags, 0o644)
            self._require_no_more(kept)
            self._claim()
            self._require_no_more(kept)  # another process may have written a line before it released the lock
            os.ftruncate(self._descriptor, kept)
            _sync_folder(self.path.parent)
        except (MachineError, OSError) as error:
            self.close()
            if isinstance(error, MachineError | FileExistsError):
                raise
            raise write_failed(self.path, error, self._way_out) from error
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Take no more lines: `write` raises from now on."""
        with self._lock:
            if self._descriptor >= 0:
                os.close(self._descriptor)
            self._descriptor = -1

    def write(self, entry: Mapping[str, Any]) -> None:
        """Write a line; it is on the disk when this returns. Raises MachineError."""
        data = (json.dumps(entry, separators=(",", ":"), allow_nan=False, ensure_ascii=True) + "\n").encode()
        with self._lock:
            try:
                before = os.fstat(self._descriptor).st_size
                try:
                    while data:
                        data = data[os.write(self._descriptor, data) :]
                    os.fsync(self._descriptor)
                except OSError:
                    os.ftruncate(self._descriptor, before)  # half of a line would make the next one unreadable
                    raise
            except OSError as error:
                raise write_failed(self.path, error, self._way_out) from error

    def _claim(self) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            message = f"another process is running `{self.path.name.removesuffix(SUFFIX)}`"
            raise MachineError(message, "wait for it, or end it") from None

    def _require_no_more(self, kept: int) -> None:
        """Raise FileExistsError for a new journal that has a line, MachineError for lines since the file was read."""
        if b"\n" not in self.path.read_bytes()[kept:]:
            return
        if self._whole_bytes is None:
            raise FileExistsError(self.path)
        name = self.path.name.removesuffix(SUFFIX)
        raise MachineError(f"another process has added to `{name}` since it was read", "type the command again")


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def find(what: str, name: str, folder: Path) -> Path:
    """Return the path of a journal by its name in `folder`, or the path of it or its CSV. Raises UsageError."""
    stem = name.removesuffix(SUFFIX).removesuffix(".csv")
    for path in (Path(f"{stem}{SUFFIX}"), folder / f"{stem}{SUFFIX}"):
        if path.is_file():
            return path
    for path in (Path(f"{stem}.csv"), folder / f"{stem}.csv"):
        if path.is_file():
            raise UsageError(f"`{name}` was not broken off, so nothing is left to resume", f"its results are in {path}")
    known = sorted(path.name.removesuffix(SUFFIX) for path in folder.glob(f"*{SUFFIX}"))
    left = f"left to resume in {folder}: {', '.join(known[-5:]) or 'nothing'}"
    raise UsageError(f"no {what} named `{name}`", did_you_mean(name, known, listing=left))


def whole_lines(path: Path) -> tuple[list[bytes], int]:
    """Return the whole lines of a journal, and their length in bytes. Raises MachineError if it is unreadable."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise MachineError(f"{path} cannot be read: {error.strerror}", "check its permissions") from error
    whole_bytes = data.rfind(b"\n") + 1
    return data[:whole_bytes].splitlines(), whole_bytes
