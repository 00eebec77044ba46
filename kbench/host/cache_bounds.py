"""The bounds of the build cache: what nothing used for long goes, then the oldest beyond its size."""

import contextlib
import fcntl
import os
import time
from dataclasses import dataclass
from pathlib import Path

from kbench.build import manifest
from kbench.build.cache import BUILDS, CacheEntry
from kbench.sandbox import removal

MAX_CACHE_BYTES, MAX_AGE_S = 20 << 30, 30 * 86_400.0
"""Bounds of all entries together, and of an entry since its last use. Chosen."""
ABANDONED_S = 6 * 3600.0
"""Age of a staging folder that no builder fills any more: builds end by their time limit. Chosen."""
TRIM_EVERY_S = 3600.0
"""Time between two looks at the whole cache. Chosen."""
STAMP = "trimmed"


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheUse:
    """Number and size of the entries of a cache, or of those that were removed."""

    entries: int
    size_bytes: int


def use(cache: Path) -> CacheUse:
    """Return the number and the size of the entries of a cache."""
    sizes = [size for _, _, size in _sized(cache)]
    return CacheUse(entries=len(sizes), size_bytes=sum(sizes))


def trim(cache: Path, *, most_bytes: int = MAX_CACHE_BYTES, max_age_s: float = MAX_AGE_S) -> CacheUse:
    """Remove abandoned staging folders, entries that nothing used for long, then the oldest beyond the bound."""
    now, left, removed = time.time(), 0, []
    for used_at, folder, size in sorted(_sized(cache), reverse=True):
        is_staging = folder.name.startswith(".")
        left += 0 if is_staging else size
        if now - used_at > (ABANDONED_S if is_staging and max_age_s else max_age_s) or left > most_bytes:
            left -= 0 if is_staging else size
            removed.append((folder, size))
    for folder, _ in removed:
        with CacheEntry(folder=folder).locked(fcntl.LOCK_EX):
            gone = folder.with_name(f".gone-{folder.name.lstrip('.')}")
            with contextlib.suppress(OSError):
                folder.rename(gone)
        removal.remove(gone)
    return CacheUse(entries=len(removed), size_bytes=sum(size for _, size in removed))


def trim_now_and_then(cache: Path) -> None:
    """Keep the bounds, at most once an hour."""
    stamp = cache / STAMP
    with contextlib.suppress(OSError):
        if not stamp.exists() or time.time() - stamp.stat().st_mtime > TRIM_EVERY_S:
            stamp.touch()
            trim(cache)


def clear(cache: Path) -> CacheUse:
    """Remove all entries and what is known of files; return what the entries were."""
    removed = trim(cache, most_bytes=-1, max_age_s=0.0)
    removal.remove(cache / manifest.FOLDER)
    return removed


def _sized(cache: Path) -> list[tuple[float, Path, int]]:
    """Return each folder below the cache's builds with the time of its last use and its size; 0 for a staging folder.

    An entry is made plain before it is published; a staging folder may nest without end, and is never walked.
    """
    found = []
    with contextlib.suppress(OSError):
        for entry in os.scandir(cache / BUILDS):
            with contextlib.suppress(OSError):
                files = () if entry.name.startswith(".") else Path(entry.path).rglob("*")
                size = sum(file.lstat().st_size for file in files if not file.is_symlink())
                found.append((entry.stat(follow_symlinks=False).st_mtime, Path(entry.path), size))
    return found
