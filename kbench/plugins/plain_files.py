"""Reading untrusted files: regular files only, up to a limit."""

import errno
import os
import stat
from pathlib import Path


def read_head(path: Path, most_bytes: int) -> bytes:
    """Return the start of a regular file: all of it, or `most_bytes` + 1 bytes if it is longer.

    Never waits, whatever lies there. Raises OSError for pipes, devices and what cannot be read.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except ValueError as error:
        raise OSError(errno.EINVAL, "not a file's name") from error
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a plain file")
        parts = []
        left = most_bytes + 1
        while left and (part := file.read(min(left, 1 << 20))):
            parts.append(part)
            left -= len(part)
    return b"".join(parts)
