"""The queue at a device: each claim is a file that its holder keeps locked, named by the order of arrival.

The kernel drops a lock when its process ends, in any container: a file without a lock is nobody's.
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
"""For every user, who may then see whether it is locked."""
TRANSIENT = {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR}
"""Reasons not to open a file that say nothing about the file."""
NAME = re.compile(r"([0-9]{12,})\.(shared|exclusive|memory)-([0-9]+)")
NOTE_CHARACTERS = 120
NO_NOTE = "another kbench process"


class ClaimKind(StrEnum):
    """What a claim asks for."""

    SHARED = "shared"
    EXCLUSIVE = "exclusive"
    MEMORY = "memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePlace:
    """A claim's place in the queue and what it asks for: all of it is in the file's name, which needs no room."""

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
        """Whether the claim is this process's own, and not yet released."""
        return not self._file.closed

    @property
    def is_there(self) -> bool:
        """Whether others see the claim: somebody may have removed the file, or the folder."""
        try:
            return os.path.samestat(os.fstat(self._file.fileno()), (self._folder / self.place.name).lstat())
        except (OSError, ValueError):
            return False

    def admit(self) -> None:
        """Note that the wait is over: others are told the time since now."""
        with contextlib.suppress(OSError):
            os.utime(self._file.fileno())

    def release(self) -> None:
        """Leave the queue. Never waits, and does nothing the second time."""
        if not self.is_live:
            return
        try:
            if self.is_there:
                _remove(self._folder / self.place.name)
            # Said as such, since a child that is being started may have a copy of the descriptor.
            with contextlib.suppress(OSError):
                fcntl.flock(self._file, fcntl.LOCK_UN)
        finally:
            self._file.close()

    def disown(self) -> None:
        """Close a forked child's copy; the parent keeps the claim."""
        self._file.close()


class ClaimQueue:
    """The claims on one device, in a folder, which callers guard around everything but `changed_ns`."""

    def __init__(self, folder: Path):
        self.folder = folder

    def enter(self, kind: ClaimKind, need_bytes: int, note: str) -> Claim:
        """Take the last place. Raises MachineError where no file can be made."""
        ticket = max((place.ticket for place in self.places()), default=0) + 1
        while True:
            try:
                return self._make(QueuePlace(ticket=ticket, kind=kind, need_bytes=need_bytes), note)
            except FileExistsError:  # what a dead process left, and this one may not remove
                ticket += 1
            except OSError as error:
                raise unusable(self.folder, error) from error

    def _make(self, place: QueuePlace, note: str) -> Claim:
        file = io.FileIO(self.folder / place.name, "xb")
        try:
            os.fchmod(file.fileno(), FILE_MODE)
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with contextlib.suppress(OSError):  # no room on the disk: the claim counts all the same
                file.write(note.encode(errors="replace"))
        except BaseException:  # a signal's too: left open, it would hold the device until this process ends
            file.close()
            raise
        return Claim(self.folder, place, file)

    def places(self) -> list[QueuePlace]:
        """Return the live claims in the order of arrival, and remove what dead ones left behind."""
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
        """Return a number that is another one after claims came, went or changed; a death alone leaves it."""
        try:
            return os.stat(self.folder).st_mtime_ns  # noqa: PTH116
        except OSError:
            return 0

    def describe(self, places: list[QueuePlace]) -> str:
        """Name the holders of claims, for people: the first by its own words."""
        others = f", and {len(places) - 1} more" if len(places) > 1 else ""
        return _note(self.folder / places[0].name) + others


def _remove(path: Path) -> None:
    """Remove a file that says nothing any more. Where that is not allowed, it still says nothing."""
    with contextlib.suppress(OSError):
        path.unlink()


def _look_at(path: Path) -> int:
    """Open what somebody else made: no link is followed, no pipe waited at. Raises OSError."""
    return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)


def _is_locked(path: Path) -> bool:
    """Whether somebody holds a lock on the file. One that cannot be opened is nobody's: a claim can be, by all."""
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
    """Return what a holder says of itself and since when, on one line of printable characters."""
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
