"""Admission to a device: processes verify beside each other and time alone, and so it is with the device's memory.

A lock is a file that its holders lock with flock: the kernel drops the lock with the process, in any container. In
front of it is a turnstile, a second file, in which one process at a time waits for the lock: a process that waits to be
alone is not overtaken by others that share. See docs/adr/0022-sharing-a-device.md.
"""

import contextlib
import fcntl
import getpass
import io
import math
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from kbench.core.errors import MachineError

DEVICE, MEMORY = "device", "memory"
"""Names of a device's two locks."""
TURNSTILE = ".turnstile"
OPEN_TO_ALL = 0o777
"""Mode of the folder, without the sticky bit, and, without execution, of its files: every user locks them."""
POLL_S = 0.02
"""Chosen. Seconds between tries. Every process tries equally often, so none of those at a turnstile is preferred."""
NOTE_CHARACTERS = 120
NO_NOTE = "another kbench process"


class DeviceBusyError(Exception):
    """Other processes used the device for longer than the caller waits."""

    def __init__(self, holder: str):
        super().__init__(f"the device is held by {holder}")
        self.holder = holder


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """A caller's wait while others use the device: its limit, and the reports of their names."""

    timeout_s: float = math.inf
    """Time until DeviceBusyError; 0 waits not at all."""
    on_wait: Callable[[str], None] | None = None
    """Called with the holder's name when the wait begins, unless `timeout_s` is 0. An exception ends the wait."""
    again_s: float = math.inf
    """Seconds between calls of `on_wait`."""


PATIENTLY = Wait()


def leases() -> Path:
    """Return the folder of the locks: KBENCH_LEASES, else one for all users, which workers cannot see (Landlock)."""
    shared = Path("/dev/shm" if os.access("/dev/shm", os.W_OK) else "/tmp", "kbench-leases")  # noqa: S108
    return Path(os.environ.get("KBENCH_LEASES") or shared).absolute()


def signature() -> str:
    """Return the command of this process, as others see it that wait. A judge has its parent's."""
    program = Path(sys.argv[0])
    name = program.parent.name if program.name == "__main__.py" else program.name  # `python -m kbench`
    command = " ".join([name, *sys.argv[1:]])
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return f"pid {os.getpid()} ({user}): {command if len(command) <= 80 else f'{command[:79]}…'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """Access of this process to one device, shared with every other kbench process on this machine.

    A thread takes memory first and the device second, one of each at a time. Methods raise DeviceBusyError when the
    time of their `wait` is over, and MachineError if the folder cannot be used.
    """

    uuid: str
    signature: str = field(default_factory=signature)
    """Name of this process in the reports of waiting processes."""
    folder: Path = field(default_factory=leases)

    def shared(self, wait: Wait = PATIENTLY) -> contextlib.AbstractContextManager[None]:
        """Use the device beside others, for verifying and rehearsing; no process times meanwhile."""
        return self._held(DEVICE, fcntl.LOCK_SH, wait)

    def exclusive(self, wait: Wait = PATIENTLY) -> contextlib.AbstractContextManager[None]:
        """Use the device alone, for timing; not within `shared`."""
        return self._held(DEVICE, fcntl.LOCK_EX, wait)

    def memory(self, wait: Wait = PATIENTLY, *, alone: bool = False) -> contextlib.AbstractContextManager[None]:
        """Use memory of the device, beside other processes or `alone`; they keep it until their case is judged."""
        return self._held(MEMORY, fcntl.LOCK_EX if alone else fcntl.LOCK_SH, wait)

    def is_wanted(self) -> bool:
        """Return whether a process waits for the device; within `shared` it waits to time."""
        return _is_locked(self._file(DEVICE + TURNSTILE), fcntl.LOCK_SH)

    def is_memory_wanted(self) -> bool:
        """Return whether a process waits for memory that this one has."""
        return _is_locked(self._file(MEMORY + TURNSTILE), fcntl.LOCK_SH)

    def others(self) -> str:
        """Name another command that verifies or times on the device; empty if there is none."""
        path = self._file(DEVICE)
        holder = _note(path) if _is_locked(path) else ""
        return "" if holder.startswith(self.signature) else holder

    def is_in_use(self) -> bool:
        """Return whether any kbench process uses the device or memory of it."""
        return any(_is_locked(self._file(lock)) for lock in (DEVICE, MEMORY))

    def _file(self, name: str) -> Path:
        return self.folder / f"{self.uuid.replace('/', '_')}.{name}"

    @contextlib.contextmanager
    def _held(self, lock: str, how: int, wait: Wait) -> Iterator[None]:
        path = self._file(lock)
        began_s, due_s = time.monotonic(), -math.inf

        def pause() -> None:
            nonlocal due_s
            left_s = began_s + wait.timeout_s - time.monotonic()
            if left_s <= 0:
                raise DeviceBusyError(_note(path))
            if wait.on_wait is not None and time.monotonic() >= due_s:
                due_s = time.monotonic() + wait.again_s
                wait.on_wait(_note(path))
            time.sleep(min(POLL_S, left_s))

        with contextlib.ExitStack() as held:
            with _locked(self._file(lock + TURNSTILE), fcntl.LOCK_EX, pause):
                file = held.enter_context(_locked(path, how, pause))
            with contextlib.suppress(OSError):  # the disk is full: the lock holds without its note
                file.truncate(0)
                os.pwrite(file.fileno(), self.signature.encode(errors="replace"), 0)
            yield


@contextlib.contextmanager
def _locked(path: Path, how: int, pause: Callable[[], None]) -> Iterator[io.FileIO]:
    """Lock a file for a `with` block; `pause` is called between two tries. Raises MachineError."""
    while True:
        with _opened(path) as file:
            while not _try_lock(file, how):
                pause()
            if not _is_there(file, path):  # removed meanwhile: others lock another file of this name
                continue
            try:
                yield file
            finally:
                # Unlock explicitly, since a child that is being started may have a copy of the descriptor.
                fcntl.flock(file, fcntl.LOCK_UN)
            return


def _opened(path: Path) -> io.FileIO:
    """Open a file that every user may lock, and make it if missing. Raises MachineError, also for a link."""
    _make_folder(path.parent)
    try:
        file = io.FileIO(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, OPEN_TO_ALL), "r+b")
    except OSError as error:
        raise _unusable(path.parent, error) from error
    _open_to_all(file.fileno(), OPEN_TO_ALL & 0o666)
    return file


def _make_folder(folder: Path) -> None:
    """Make a folder that every user may write to, if it is missing. Raises MachineError, also for a link."""
    try:
        with contextlib.suppress(FileExistsError):
            folder.mkdir()
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise _unusable(folder, error) from error
    _open_to_all(opened, OPEN_TO_ALL)
    os.close(opened)


def _open_to_all(opened: int, mode: int) -> None:
    """Change the mode of an open file or folder, whatever the umask says, where that is allowed."""
    if os.fstat(opened).st_mode & 0o7777 != mode:
        with contextlib.suppress(OSError):
            os.fchmod(opened, mode)


def _try_lock(file: io.FileIO, how: int) -> bool:
    """Lock an open file, if no other process keeps it from that."""
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_locked(path: Path, how: int = fcntl.LOCK_EX) -> bool:
    """Return whether a process keeps others from locking a file in this way; False where it cannot be opened."""
    try:
        with io.FileIO(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)) as file:
            return not _try_lock(file, how)
    except OSError:
        return False


def _is_there(file: io.FileIO, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.lstat())
    except OSError:
        return False


def _note(path: Path) -> str:
    """Return the name of a lock's last holder and the time that it has held, on one line of printable characters."""
    try:
        with io.FileIO(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)) as file:
            note = file.read(NOTE_CHARACTERS).decode(errors="replace").strip()
            seconds = max(0, round(time.time() - os.fstat(file.fileno()).st_mtime))
    except OSError:
        return NO_NOTE
    words = "".join(character if character.isprintable() else "?" for character in note)
    return f"{words or NO_NOTE}, for {seconds} s"


def _unusable(folder: Path, error: OSError) -> MachineError:
    """Return the error for a folder that cannot be used, with a hint."""
    hint = f"`ls -ld {folder.parent} {folder}` and `df -i {folder.parent}` show the cause"
    if isinstance(error, PermissionError):
        hint = f"every user must be able to change files there: `chmod -R a+rwX {folder}`"
    return MachineError(f"the locks of the device in {folder} cannot be used: {error.strerror}", hint)
