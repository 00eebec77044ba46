"""Manifests: which files a solution or a problem depends on, as a process that ran it observed, and its identity.

The identity of a file is the digest of its manifest: `source_sha256` and `problem_sha256` of a row, the key of the
build cache, and what `watch`, `compare`, `gate` and a resumed run mean by "the same". Known manifests are kept below
the cache, by the content of the file itself; one whose files all have their hashes still is current (the direct mode of
ccache: https://ccache.dev/manual/latest.html#_the_direct_mode). Nothing is read from a file's text.
"""

import contextlib
import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from kbench.build.observation import MAX_PATHS
from kbench.storage import json_values
from kbench.storage.settings import cache_dir

FOLDER = "manifests"
MAX_KNOWN = 32
"""Manifests kept of files with equal contents: one wrapper beside other sources has another manifest."""
MAX_HASHED_BYTES = 64 << 20
"""A longer file is hashed up to here, with its size and the time of its last change."""
CHUNK_BYTES = 1 << 20
ABSENT = "absent"
"""In place of a hash: a file that was looked for and is not there."""
NOT_FILES = ("/dev/", "/proc/", "/sys/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The files and folders that one file depends on, by their paths from its folder, each with its hash."""

    files: Mapping[str, str]
    """Without the file itself, whose content is the key under which a manifest is kept."""
    folders: Mapping[str, str]
    """Folders that were listed; the hash is that of the names in it."""

    @classmethod
    def taken(cls, path: Path, files: Iterable[str], folders: Iterable[str]) -> Self:
        """Hash the observed paths, which are absolute. A missing file outside the folder of `path` is left out."""
        start, home = os.path.abspath(path), os.path.dirname(os.path.abspath(path))
        real = os.path.realpath(start)
        hashes = {file: content_hash(file) for file in files if file not in {start, real}}
        kept = {
            os.path.relpath(file, home): found
            for file, found in hashes.items()
            if not file.startswith(NOT_FILES) and (found != ABSENT or file.startswith(home + os.sep))
        }
        listed = {os.path.relpath(folder, home): names_hash(folder) for folder in folders}
        return cls(
            files=dict(sorted(kept.items())),
            folders=dict(sorted((folder, found) for folder, found in listed.items() if found != ABSENT)),
        )

    def joined(self, other: "Manifest") -> "Manifest":
        """Return a manifest of what either has; the hashes of `other` count."""
        files, folders = {**self.files, **other.files}, {**self.folders, **other.folders}
        return Manifest(files=dict(sorted(files.items())), folders=dict(sorted(folders.items())))

    def is_current(self, path: Path) -> bool:
        """Return whether all of it is as it was, seen from a file of the same content."""
        home = os.path.dirname(os.path.abspath(path))
        return all(content_hash(os.path.join(home, file)) == found for file, found in self.files.items()) and all(
            names_hash(os.path.join(home, folder)) == found for folder, found in self.folders.items()
        )

    def digest(self, path: Path, variant: str = "") -> str:
        """Return the identity of a file with this manifest, of which `variant` is judged; moves of all keep it."""
        found = hashlib.sha256(variant.encode())
        found.update(bytes.fromhex(file_hash(path)))
        for kind in (self.files, self.folders):
            for place, content in kind.items():
                found.update(f"{len(place)} {place} {content} ".encode(errors="surrogateescape"))
        return found.hexdigest()

    def paths(self, path: Path) -> list[Path]:
        """Return the files themselves, the one that depends on them first."""
        home = path.absolute().parent
        return [path.absolute(), *(Path(os.path.normpath(home / file)) for file in self.files)]


NOTHING = Manifest(files={}, folders={})
"""Manifest of a file that depends on no other, or about which nothing is known."""


def current(path: Path, variant: str = "") -> Manifest:
    """Return the manifest of a file as it lies there; NOTHING where none is known. Raises OSError."""
    found = [manifest for manifest in _known(_place(path, variant)) if manifest.is_current(path)]
    return max(found, key=lambda manifest: len(manifest.files), default=NOTHING)


def identity(path: Path, variant: str = "") -> str:
    """Return the digest of a file's current manifest; empty where the file cannot be read."""
    try:
        return current(path, variant).digest(path, variant)
    except OSError:
        return ""


def is_identity(sha256: str, path: Path, variant: str = "") -> bool:
    """Return whether a recorded identity is still that of the file, and of all that was read with it then."""
    try:
        manifests = [NOTHING, *_known(_place(path, variant))]
        return any(manifest.digest(path, variant) == sha256 and manifest.is_current(path) for manifest in manifests)
    except OSError:
        return False


def record(path: Path, variant: str, files: Sequence[str], folders: Sequence[str]) -> Manifest:
    """Keep what a process observed of a file, with what is known of it already; return its manifest. Raises OSError."""
    place = _place(path, variant)
    manifest = current(path, variant).joined(Manifest.taken(path, files[:MAX_PATHS], folders[:MAX_PATHS]))
    known = [other for other in _known(place) if other != manifest][: MAX_KNOWN - 1]
    with contextlib.suppress(OSError):  # without a cache nothing is known later
        json_values.write(place, json_values.plain([manifest, *known]))
    return manifest


def latest(path: Path, variant: str = "") -> list[Path]:
    """Return the files of the manifest that was recorded last for a file of this content, changed or not."""
    with contextlib.suppress(OSError):
        return next(iter(_known(_place(path, variant))), NOTHING).paths(path)
    return [path]


def file_hash(path: Path) -> str:
    """Return the hash of the file itself. Raises OSError where it cannot be read."""
    found = content_hash(os.path.abspath(path))
    if found == ABSENT:
        raise OSError(f"{path} cannot be read")
    return found


def content_hash(path: str) -> str:
    """Return the hash of a file's content; ABSENT where there is no plain file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except (OSError, ValueError):
        return ABSENT
    with os.fdopen(descriptor, "rb") as file:
        status, digest, left = os.fstat(descriptor), hashlib.sha256(), MAX_HASHED_BYTES
        try:
            while left and (chunk := file.read(min(left, CHUNK_BYTES))):
                digest.update(chunk)
                left -= len(chunk)
        except OSError:  # a folder, or a device
            return ABSENT
        if not left:
            digest.update(f"{status.st_size} {status.st_mtime_ns}".encode())
    return digest.hexdigest()


def names_hash(path: str) -> str:
    """Return the hash of the names in a folder, bytecode apart; ABSENT where there is no folder."""
    try:
        names = sorted(name for name in os.listdir(path) if name != "__pycache__" and not name.endswith(".pyc"))
    except OSError:
        return ABSENT
    return hashlib.sha256("\0".join(names).encode(errors="surrogateescape")).hexdigest()


def _place(path: Path, variant: str) -> Path:
    key = hashlib.sha256(f"{file_hash(path)} {variant}".encode()).hexdigest()
    return cache_dir() / FOLDER / f"{key[:40]}.json"


def _known(place: Path) -> list[Manifest]:
    """Read the manifests of files of one content, the last recorded first; none from a damaged file."""
    try:
        found: list[Manifest] = json_values.reader_of(list[Manifest]).validate_json(place.read_bytes())
    except (OSError, ValueError):
        return []
    return found
