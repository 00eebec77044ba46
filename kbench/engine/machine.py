"""Faults of the machine that look like a solution's: a disk without room makes builds and imports fail."""

import contextlib
import shutil
import tempfile
from pathlib import Path

from kbench.core.model import Status
from kbench.storage.settings import cache_dir

MIN_FREE_BYTES = 64 << 20
"""Chosen. A build of an extension writes up to some ten MB, and one that lacks room leaves some behind."""
NEEDS_ROOM = frozenset({Status.BUILD_FAILED, Status.IMPORT_FAILED, Status.INIT_FAILED, Status.RAISED})
"""Statuses of a solution that could not write a file."""


def full_disk() -> str:
    """Name a folder of the machine, of the cache or of temporary files, whose disk has no room left; empty for none."""
    for folder in (cache_dir(), Path(tempfile.gettempdir())):
        with contextlib.suppress(OSError):  # a folder that is not there yet
            free_bytes = shutil.disk_usage(folder).free
            if free_bytes < MIN_FREE_BYTES:
                return f"no room is left on the disk of {folder} ({free_bytes >> 20} MB are free)"
    return ""
