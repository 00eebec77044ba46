"""Namespaces of an untrusted process, with a process table, /dev/shm and /tmp of its own.

Its /tmp is a folder that the caller keeps, so that files built there can be cached. The paths of the real /tmp that
the process needs are bind-mounted at the same place, read-only. Standard library only.
"""

import contextlib
import ctypes
import errno
import json
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from kbench.sandbox import libc

CLONE_NEWNS = 0x00020000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
NAMESPACES = CLONE_NEWUSER | CLONE_NEWIPC | CLONE_NEWPID | CLONE_NEWNET
MS_NOSUID_NODEV_NOEXEC = 2 | 4 | 8
MS_REC_PRIVATE = 0x4000 | 0x40000
MS_BIND_REC = 0x1000 | 0x4000
MOUNT_SETATTR = 442
AT_FDCWD, AT_RECURSIVE, ATTR_RDONLY = -100, 0x8000, 1
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - its very place
SHARED_MEMORY_OPTIONS = b"size=64m,mode=1777"
TEMPORARY = "/tmp"  # noqa: S108 - as above


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Contents of a process's /tmp: the folder mounted there, and the paths of the real /tmp that stay visible."""

    temporary: str
    """The folder. It lies outside /tmp, and stays when the process has ended."""
    own: tuple[str, ...] = ()
    """Folders below the real /tmp that the process may write, where it may write at all."""
    seen: tuple[str, ...] = ()
    """Files and folders below the real /tmp that the process may only read."""

    def to_json(self) -> str:
        """Return what `from_json` reads."""
        return json.dumps([self.temporary, self.own, self.seen])

    @staticmethod
    def from_json(text: str) -> "Surroundings | None":
        """Read what `to_json` wrote; None from an empty text."""
        if not text:
            return None
        temporary, own, seen = json.loads(text)
        return Surroundings(temporary=temporary, own=tuple(own), seen=tuple(seen))


def place() -> Path:
    """Return where /tmp really is, links followed."""
    return Path(os.path.realpath(TEMPORARY))


def has(temporary: Path) -> bool:
    """Return whether that folder is the /tmp of this process."""
    return temporary.is_dir() and temporary.samefile(place())


def why_closed(error: BaseException) -> str:
    """Return why /tmp is closed to a solution, empty if its error has another cause.

    Only rungs with a mount namespace give a solution a /tmp of its own.
    """
    name = error.filename if isinstance(error, PermissionError) else None
    if not isinstance(name, str) or place() not in Path(name).parents:
        return ""
    return f" (the sandbox cannot give it a {TEMPORARY} of its own on this machine: see `kbench doctor`)"


def enter() -> None:
    """Enter new user, IPC, PID and network namespaces as the same user; the next child is in them. Raises OSError."""
    uid, gid = os.getuid(), os.getgid()
    libc.call("unshare", NAMESPACES)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
    Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")


def mount(surroundings: Surroundings | None) -> None:
    """Enter a mount namespace with a process table and shared memory of its own, and those surroundings.

    Raises OSError.
    """
    libc.call("unshare", CLONE_NEWNS)
    _mount(None, "/", flags=MS_REC_PRIVATE)
    _mount(None, "/proc", kind=b"proc", flags=MS_NOSUID_NODEV_NOEXEC)
    if Path(SHARED_MEMORY).is_dir():
        _mount(None, SHARED_MEMORY, kind=b"tmpfs", flags=MS_NOSUID_NODEV_NOEXEC, options=SHARED_MEMORY_OPTIONS)
    if surroundings is not None:
        _surround(surroundings)


def clear(surroundings: Surroundings) -> None:
    """Remove from the folder what only held the place of something that showed through. Nobody may write it now."""
    folder = Path(surroundings.temporary)
    for path in (*surroundings.own, *surroundings.seen):
        held = folder / Path(path).relative_to(place())
        above = [step for step in held.parents if folder in step.parents]
        if any(step.is_symlink() for step in above):
            continue
        with contextlib.suppress(OSError):
            _remove_empty(held)
            for step in above:
                step.rmdir()


def _remove_empty(path: Path) -> None:
    status = path.lstat()
    if stat.S_ISDIR(status.st_mode):
        path.rmdir()
    elif stat.S_ISLNK(status.st_mode) or not status.st_size:
        path.unlink()


def _surround(surroundings: Surroundings) -> None:
    """Bind the folder over /tmp, then into it what shows through, which is held open meanwhile."""
    working = Path.cwd()
    writable = dict.fromkeys(surroundings.seen, False) | dict.fromkeys(surroundings.own, True)
    # Folders come before the folders inside them.
    held = [(path, _hold(path)) for path in sorted(writable)]
    _mount(surroundings.temporary, str(place()))
    for path, descriptor in held:
        if descriptor is not None:
            _show(descriptor, Path(path), writable=writable[path])
            os.close(descriptor)
    # The old working folder would lead past what was mounted.
    os.chdir("/")
    with contextlib.suppress(OSError):
        os.chdir(working)


def _hold(path: str) -> int | None:
    with contextlib.suppress(OSError):  # gone, or never there
        return os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    return None


def _show(descriptor: int, path: Path, *, writable: bool) -> None:
    """Bind what a descriptor leads to onto a path in the new /tmp; a link is made again."""
    mode = os.fstat(descriptor).st_mode
    _make_way(path.parent)
    if stat.S_ISLNK(mode):
        target = os.readlink("", dir_fd=descriptor)
        if path.is_symlink() and str(path.readlink()) == target:
            return  # it shows with its folder, which may be read-only already
        path.unlink(missing_ok=True)
        path.symlink_to(target)
        return
    if stat.S_ISDIR(mode):
        _make_way(path)
    elif not stat.S_ISREG(_mode(path)):
        path.unlink(missing_ok=True)
        path.touch()
    _mount(f"/proc/self/fd/{descriptor}", str(path))
    if not writable:
        _make_read_only(path)


def _make_way(folder: Path) -> None:
    """Make a folder in the new /tmp, where an earlier build may have left anything, links outwards too."""
    for step in [*reversed(folder.parents), folder]:
        if place() in step.parents and not stat.S_ISDIR(_mode(step)):
            step.unlink(missing_ok=True)
            step.mkdir()


def _mode(path: Path) -> int:
    with contextlib.suppress(FileNotFoundError):
        return path.lstat().st_mode
    return 0


def _make_read_only(path: Path) -> None:
    """Forbid writes below a mount. Landlock cannot: what it allows in /tmp it allows in all that is mounted there.

    Kernels that are too old for the call have no Landlock either, and no rung there that keeps files from writes.
    """
    attributes = (ctypes.c_uint64 * 4)(ATTR_RDONLY, 0, 0, 0)
    arguments = ctypes.c_int(AT_FDCWD), os.fsencode(path), ctypes.c_uint(AT_RECURSIVE), ctypes.byref(attributes)
    size = ctypes.c_size_t(ctypes.sizeof(attributes))
    try:
        libc.call("syscall", ctypes.c_long(MOUNT_SETATTR), *arguments, size, called=f"mount_setattr {path}")
    except OSError as error:
        if error.errno != errno.ENOSYS:
            raise


def _mount(
    source: str | None,
    target: str,
    *,
    kind: bytes | None = None,
    flags: int = MS_BIND_REC,
    options: bytes | None = None,
) -> None:
    named = os.fsencode(source) if source is not None else b"none"
    libc.call("mount", named, os.fsencode(target), kind, ctypes.c_ulong(flags), options, called=f"mount {target}")
