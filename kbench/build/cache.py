"""The build cache: an entry is a folder with all that compilers left behind; its key covers all that was read.

A builder fills a staging folder, which is renamed into place; workers get private copies. Readers hold a shared lock of
all entries, a builder that replaces one the exclusive lock.
"""

import contextlib
import fcntl
import functools
import hashlib
import importlib.metadata
import itertools
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kbench.build import manifest
from kbench.core.errors import MachineError
from kbench.core.version import __version__
from kbench.storage import json_values

FORMAT = 4
"""Version of the cache's layout; part of every key."""
RECORD = "built.json"
BUILDS = "builds"
MOST_FILES, MOST_BYTES, DEEPEST, LONGEST = 50_000, 2 << 30, 60, 1_000
"""Limits of one build's artefacts, which every worker copies; the last one is bytes in a path below the entry."""
ENVIRONMENT_FOLDERS = {
    "TORCH_EXTENSIONS_DIR": "extensions",
    "TRITON_CACHE_DIR": "triton",
    "CUTE_DSL_CACHE_DIR": "cute",
    "TILELANG_CACHE_DIR": "tilelang",
    "HELION_CACHE_DIR": "helion",
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "CUDA_CACHE_PATH": "cuda",
    "HOME": "home",
}
"""Folders for the caches of compilers, relative to an entry; compilers without a variable use the home folder."""
LANGUAGE_CACHES = ("TRITON_CACHE_DIR", "CUTE_DSL_CACHE_DIR", "TILELANG_CACHE_DIR", "HELION_CACHE_DIR")
"""Variables of languages for kernels."""
TEMPORARY_FOLDER = "tmp"
"""Folder used as /tmp by a process that builds, or loads builds, if the sandbox gives it a /tmp of its own."""


@functools.cache
def toolchain() -> str:
    """Return the versions of everything that compiles: Python, torch, nvcc, the host compiler and the processor."""
    compilers = (["nvcc", "--version"], [os.environ.get("CXX", "c++"), "--version"])
    lines = (sys.version, importlib.metadata.version("torch"), _processor(), *map(_output, compilers))
    return "\n".join(lines)


def _output(command: Sequence[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return "absent"


def _processor() -> str:
    """Return the processor's instruction sets: `-march=native` makes the artefact depend on them."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor()
    return "\n".join(
        sorted({line for line in text.splitlines() if line.startswith(("flags", "Features", "model name"))})
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheEntry:
    """One solution, as built by one toolchain for one device."""

    folder: Path

    @property
    def is_built(self) -> bool:
        """True if a build of this entry has finished."""
        with self.locked(fcntl.LOCK_SH):
            return (self.folder / RECORD).exists()

    def rehearsed(self) -> set[str]:
        """Return the keys of the rehearsals that this entry has seen."""
        return {*self._record.get("rehearsed", ())}

    @property
    def compiler(self) -> str:
        """Compiler that the solution used in its calls, for which it may start programs; empty if none."""
        return str(self._record.get("compiler", ""))

    @property
    def _record(self) -> dict[str, Any]:
        with self.locked(fcntl.LOCK_SH):
            return json_values.read(self.folder / RECORD)

    def stage(self) -> Path:
        """Return a new staging folder with a copy of the entry. Raises MachineError (no cache), OSError (no copy)."""
        try:
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            staging = Path(tempfile.mkdtemp(prefix=f".{self.folder.name[:12]}-", dir=self.folder.parent))
        except OSError as error:
            message = f"the build cache {self.folder.parent} cannot be written: {error.strerror}"
            raise MachineError(message, "set KBENCH_CACHE to a folder that can be written") from error
        try:
            self.copy_to(staging)
            furnish(staging)
        except OSError:
            shutil.rmtree(staging, ignore_errors=True)
            raise
        return staging

    def publish(self, staging: Path, rehearsed: Iterable[str], compiler: str) -> None:
        """Rename a filled staging folder into place; if two builders race, the last one wins.

        A builder's files are untrusted: only plain ones stay. Raises UnfitArtefactsError where there are too many.
        """
        make_plain(staging)
        (staging / RECORD).write_text(json.dumps({"rehearsed": sorted(rehearsed), "compiler": compiler}))
        outgoing = Path(tempfile.mkdtemp(prefix=".old-", dir=self.folder.parent))
        with self.locked(fcntl.LOCK_EX):
            if self.folder.exists():
                self.folder.rename(outgoing / "entry")
            staging.rename(self.folder)
        shutil.rmtree(outgoing, ignore_errors=True)

    def share_with(self, other: "CacheEntry") -> None:
        """Let another key have these artefacts, as hard links, unless it has its own; skipped where that fails."""
        if other.folder.exists():
            return
        with contextlib.suppress(OSError), self.locked(fcntl.LOCK_EX):
            staging = Path(tempfile.mkdtemp(prefix=".shared-", dir=self.folder.parent))
            try:
                shutil.copytree(self.folder, staging, dirs_exist_ok=True, symlinks=True, copy_function=os.link)
                staging.rename(other.folder)
            except OSError:
                shutil.rmtree(staging, ignore_errors=True)

    def copy_to(self, folder: Path) -> None:
        """Give a worker or a builder its private copy, if there is any. Raises OSError, for `uncopied`."""
        with self.locked(fcntl.LOCK_SH):
            if self.folder.exists():
                with contextlib.suppress(OSError):
                    os.utime(self.folder)  # its last use
                shutil.copytree(self.folder, folder, dirs_exist_ok=True, symlinks=True)

    @contextlib.contextmanager
    def locked(self, kind: int) -> Iterator[None]:
        """Hold the lock of all entries, a file beside their folder, where there can be such a file and locks."""
        place = self.folder.parent.with_name(f"{self.folder.parent.name}.lock")
        with contextlib.ExitStack() as held:
            with contextlib.suppress(OSError):
                # Open for writing: a network file system gives nobody else an exclusive lock.
                fcntl.flock(held.enter_context(place.open("a")), kind)
            yield


def furnish(folder: Path) -> Path:
    """Make what processes expect to be there in a staging folder, or in a copy; return the one for /tmp."""
    for name in (ENVIRONMENT_FOLDERS["HOME"], TEMPORARY_FOLDER):
        (folder / name).mkdir(parents=True, exist_ok=True)
    return folder / TEMPORARY_FOLDER


class UnfitArtefactsError(Exception):
    """A build left more than a cache should hold, or nests its folders too deeply to be copied."""


def uncopied(error: OSError) -> str:
    """Return why a build's artefacts cannot be copied, without their paths."""
    # shutil.Error has a list of (from, to, why) in place of an errno.
    text = str(error.args[0][0][-1]) if isinstance(error, shutil.Error) else error.strerror or type(error).__name__
    words = re.sub(r"^\[Errno \d+\] ", "", text).partition(": '")[0]
    return f"its artefacts cannot be copied: {words}; build fewer, smaller ones below shorter paths"


def make_plain(staging: Path) -> None:
    """Remove links out of the folder, pipes, sockets, devices, records and locks; make the rest readable to its owner.

    A file `lock`, by which torch knows a build that is under way, would be waited for forever: the builder is dead.
    Raises UnfitArtefactsError beyond MOST_FILES, MOST_BYTES, DEEPEST or LONGEST, and OSError.
    """
    record = staging / RECORD
    if record.is_dir() and not record.is_symlink():
        record.rmdir()
    record.unlink(missing_ok=True)
    root = os.path.realpath(staging)
    files = size = 0
    queue = [(staging, 0)]
    while queue:
        folder, depth = queue.pop()
        for entry in _entries(folder):
            path = Path(entry.path)
            files += 1
            if len(os.fsencode(path.relative_to(staging))) > LONGEST:
                raise UnfitArtefactsError(f"the build left a path of more than {LONGEST} bytes")
            inside = not entry.is_symlink() or Path(os.path.realpath(path)).is_relative_to(root)
            if entry.is_dir(follow_symlinks=False):
                path.chmod(0o700)
                queue.append((path, depth + 1))
            elif not inside or not (entry.is_file(follow_symlinks=False) or entry.is_symlink()) or entry.name == "lock":
                path.unlink()
            elif not entry.is_symlink():
                status = entry.stat(follow_symlinks=False)
                if status.st_mode & 0o600 != 0o600:
                    path.chmod(status.st_mode & 0o777 | 0o600)
                size += status.st_size
        if files > MOST_FILES or size > MOST_BYTES or depth > DEEPEST:
            raise UnfitArtefactsError(
                f"the build left more than {MOST_FILES} files, {MOST_BYTES >> 30} GiB or {DEEPEST} levels"
            )


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        return list(itertools.islice(entries, MOST_FILES + 1))


def entry_for(path: Path, variant: str, device_key: str, cache: Path) -> CacheEntry:
    """Return the cache entry of a solution, as it lies there, on a device (`cpu`, or a GPU's model and capability)."""
    parts = (str(FORMAT), __version__, manifest.identity(path, variant), device_key, toolchain())
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    return CacheEntry(folder=cache / BUILDS / key[:40])


def compiler_environment(folder: Path, *, home: bool = True) -> dict[str, str]:
    """Return the variables that keep compilers inside `folder`; without `home`, the home folder stays the user's."""
    places = ENVIRONMENT_FOLDERS.items()
    return {name: str(folder / place) for name, place in places if home or name != "HOME"}
