"""The queue at a device: each claim is a file that its holder keeps locked, named by the order of arrival.

The kernel drops a lock when its process ends, in any container, so a file without a lock has no holder.
"""

import contextlib
import errno
import fcntl
import io
import os
import re
import time
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Self

from kbench.devices.shared_folder import lock, unusable

FILE_MODE = 0o666
"""Mode of a claim's file: every user may test its lock."""
TRANSIENT = {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR}
"""Errors of opening a file that do not depend on the file."""
NAME = re.compile(r"([0-9]{12,})\.(shared|exclusive|memory)-([0-9]+)")
NOTE_CHARACTERS = 120
NO_NOTE = "another kbench process"


class ClaimKind(StrEnum):
    """Kind of a claim: the lock, shared or exclusive, or memory."""

    SHARED = "shared"
    EXCLUSIVE = "exclusive"
    MEMORY = "memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePlace:
    """A claim's place in the queue and its request, both in the file's name, which takes no disk space."""

    ticket: int
    kind: ClaimKind
    need_bytes: int = 0

    @property
    def name(self) -> str:
        """Name of the claim's file."""
        return f"{self.ticket:012d}.{self.kind}-{self.need_bytes:d}"

    @classmethod
    def read(cls, name: str) -> Self | None:
        """Parse a file's name; return None if the file is not a claim."""
        found = NAME.fullmatch(name)
        return cls(ticket=int(found[1]), kind=ClaimKind(found[2]), need_bytes=int(found[3])) if found else None


class Claim:
    """A place in the queue, from arrival to `release`, or to the end of this process."""

    def __init__(self, folder: Path, place: QueuePlace, file: io.FileIO):
        self._folder = folder
        self._file = file
        self.place = place

    @property
    def is_live(self) -> bool:
        """True if the claim is this process's own, and not yet released."""
        return not self._file.closed

    @property
    def is_there(self) -> bool:
        """True if others see the claim; the file or the folder may have been removed."""
        try:
            return os.path.samestat(os.fstat(self._file.fileno()), (self._folder / self.place.name).lstat())
        except (OSError, ValueError):
            return False

    def admit(self) -> None:
        """Record the end of the wait, from which reports to others count the time."""
        with contextlib.suppress(OSError):
            os.utime(self._file.fileno())

    def release(self) -> None:
        """Leave the queue. Never waits, and does nothing the second time."""
        if not self.is_live:
            return
        try:
            if self.is_there:
                _remove(self._folder / self.place.name)
            # Unlock explicitly, since a child that is being started may have a copy of the descriptor.
            with contextlib.suppress(OSError):
                fcntl.flock(self._file, fcntl.LOCK_UN)
        finally:
            self._file.close()

    def disown(self) -> None:
        """Close a forked child's copy; the parent keeps the claim."""
        self._file.close()


class ClaimQueue:
    """The claims on one device, in a folder, which callers guard for all methods but `changed_ns`."""

    def __init__(self, folder: Path):
        self.folder = folder

    def enter(self, kind: ClaimKind, need_bytes: int, note: str) -> Claim:
        """Take the last place. Raises MachineError if no file can be made."""
        ticket = max((place.ticket for place in self.places()), default=0) + 1
        while True:
            try:
                return self._make(QueuePlace(ticket=ticket, kind=kind, need_bytes=need_bytes), note)
            except FileExistsError:  # a file of a dead process that this one may not remove
                ticket += 1
            except OSError as error:
                raise unusable(self.folder, error) from error

    def _make(self, place: QueuePlace, note: str) -> Claim:
        file = io.FileIO(self.folder / place.name, "xb")
        try:
            os.fchmod(file.fileno(), FILE_MODE)
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with contextlib.suppress(OSError):  # the disk is full: the claim counts without its note
                file.write(note.encode(errors="replace"))
        except BaseException:  # also after a signal: an open file holds the device until this process ends
            file.close()
            raise
        return Claim(self.folder, place, file)

    def places(self) -> list[QueuePlace]:
        """Return the live claims in the order of arrival, and remove files of dead ones."""
        try:
            found = [place for name in os.listdir(self.folder) if (place := QueuePlace.read(name)) is not None]  # noqa: PTH208
        except OSError as error:
            raise unusable(self.folder, error) from error
        live = []
        for place in sorted(found, key=lambda place: place.ticket):
            path = self.folder / place.name
            if _is_locked(path):
                live.append(place)
            else:
                _remove(path)
        return live

    def changed_ns(self) -> int:
        """Return a number that changes when claims come, go or change, but not when a process dies."""
        try:
            return os.stat(self.folder).st_mtime_ns  # noqa: PTH116
        except OSError:
            return 0

    def describe(self, places: list[QueuePlace]) -> str:
        """Describe the holders of claims, the first by its own note."""
        others = f", and {len(places) - 1} more" if len(places) > 1 else ""
        return _note(self.folder / places[0].name) + others


def _remove(path: Path) -> None:
    """Remove a file without a holder, if that is allowed; it has no meaning otherwise."""
    with contextlib.suppress(OSError):
        path.unlink()


def _look_at(path: Path) -> int:
    """Open another process's file without following a link or waiting at a pipe. Raises OSError."""
    return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)


def _is_locked(path: Path) -> bool:
    """Return whether a process holds a lock on the file. A file that cannot be opened is no claim."""
    try:
        probe = _look_at(path)
    except OSError as error:
        return error.errno in TRANSIENT
    try:
        return not lock(probe, fcntl.LOCK_SH)
    except OSError:
        return True
    finally:
        os.close(probe)


def _note(path: Path) -> str:
    """Return a holder's note and the time that it has held, on one line of printable characters."""
    try:
        file = _look_at(path)
        try:
            said = os.pread(file, NOTE_CHARACTERS, 0).decode(errors="replace").strip()
            seconds = max(0, round(time.time() - os.fstat(file).st_mtime))
        finally:
            os.close(file)
    except OSError:
        return NO_NOTE
    words = "".join(character if character.isprintable() else "?" for character in said)
    return f"{words or NO_NOTE}, for {seconds} s"
