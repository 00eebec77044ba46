"""Removal of folders that a killed process leaves, whatever they contain."""

import contextlib
import os
import uuid
from pathlib import Path


def remove(folder: Path) -> None:
    """Remove a folder and all below it, as far as this user may; links are not followed.

    A solution may have nested folders by the thousand, where `shutil.rmtree` runs out of stack and descriptors: here
    each is moved up beside its parent first, so that nothing is ever deep. Nobody may write below `folder` meanwhile.
    """
    while _remove_a_level(folder):
        pass
    with contextlib.suppress(OSError):
        folder.rmdir()


def _remove_a_level(folder: Path) -> bool:
    """Remove the entries of a folder, but for what lies two levels down: that becomes the next entries."""
    progress = False
    for entry in _entries(str(folder)):
        with contextlib.suppress(OSError):
            if entry.is_dir(follow_symlinks=False):
                for inner in _entries(entry.path):
                    if inner.is_dir(follow_symlinks=False):
                        os.chmod(inner.path, 0o700)  # noqa: PTH101 - no link, as was just seen
                        os.rename(inner.path, folder / uuid.uuid4().hex)  # noqa: PTH104
                        progress = True
                    else:
                        os.unlink(inner.path)  # noqa: PTH108
                os.rmdir(entry.path)  # noqa: PTH106
            else:
                os.unlink(entry.path)  # noqa: PTH108
            progress = True
    return progress


def _entries(folder: str) -> list[os.DirEntry[str]]:
    with contextlib.suppress(OSError):
        os.chmod(folder, 0o700)  # noqa: PTH101
        return list(os.scandir(folder))
    return []
