"""What a worker must not read although its user may: results, caches, other runs' folders, credentials.

Rungs with Landlock hold to it. The problem's file is not secret: it has neither seeds nor expected values, and a
solution was written from it.
"""

import functools
import importlib.util
import os
import pwd
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from kbench.measure import sources

RUN_FOLDERS = "kbench-*"
"""Folders of runs in the system's folder for temporary files."""


def hidden(*, results: Path, cache: Path, run: Path, files: Sequence[Path]) -> list[Path]:
    """Return what to keep from the workers of a run that judge `files`, its solutions and their problem.

    These are the results and baselines, the build cache and what lies beside it, the folders of this run and of
    others (a worker's own is opened to it again), the entries of the home folder that begin with a dot, since that is
    where credentials are kept, and `.git` of a checkout, where CI leaves its token. What holds something that a worker
    of the run needs to run at all stays readable.
    """
    temporary = Path(tempfile.gettempdir())
    found = [results.absolute(), cache.absolute(), run.absolute(), *temporary.glob(RUN_FOLDERS)]
    for home in {Path.home(), Path(pwd.getpwuid(os.getuid()).pw_dir)}:
        found += _entries(home)
    for folder in {parent for path in (results, *files) for parent in path.absolute().parents}:
        found += [folder / ".git"] if (folder / ".git").exists() else []
    needed = [*_interpreter(), *(Path(os.path.realpath(path)) for path in files)]
    real = {Path(os.path.realpath(path)) for path in found}
    return sorted(path for path in real if not any(place.is_relative_to(path) for place in needed))


def _entries(home: Path) -> list[Path]:
    try:
        return [home / entry.name for entry in os.scandir(home) if entry.name.startswith(".")]
    except OSError:
        return []


@functools.cache
def _interpreter() -> tuple[Path, ...]:
    """Return where Python, its packages, kbench and the compilers lie, links followed and not."""
    torch = importlib.util.find_spec("torch")
    places = [sys.executable, sys.prefix, sys.base_prefix, *sys.path, str(sources.PACKAGE)]
    places += [str(torch.origin)] if torch is not None else []
    places += [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if name in os.environ]
    places += os.environ.get("PATH", "").split(os.pathsep)
    absolute = [Path(place).absolute() for place in places if place]
    return tuple({*absolute, *(Path(os.path.realpath(path)) for path in absolute)})
