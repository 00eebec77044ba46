"""What a worker must not read although its user may: results, caches, other runs' folders, credentials.

Rungs with Landlock hold to it, and so does what a worker sees in a /tmp of its own, where namespaces give it one. The
problem's file is not secret: it has neither seeds nor expected values, and a solution was written from it.
"""

import functools
import importlib.util
import os
import pwd
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from kbench.build import interpreter
from kbench.build.observation import SOURCE_SUFFIXES
from kbench.sandbox import landlock, namespaces
from kbench.sandbox.namespaces import Surroundings

RUN_FOLDERS = ("kbench-*", "ray")
"""Folders of runs, and of a node of a Ray cluster, in the system's folder for temporary files."""


def hidden(*, results: Path, others: Sequence[Path], files: Sequence[Path]) -> list[Path]:
    """Return what to keep from the workers of a run that judge `files`, its solutions and their problem.

    These are the results and baselines, `others` (the cache, the queues for devices, the folder of this run), the
    folders of other runs (a worker's own is opened to it again), the entries of the home folder that begin with a dot,
    since that is where credentials are kept, and `.git` of a checkout, where CI leaves its token. What holds something
    that a worker of the run needs to run at all stays readable.
    """
    temporary = Path(tempfile.gettempdir())
    found = [results.absolute(), *(folder.absolute() for folder in others)]
    found += [folder for name in RUN_FOLDERS for folder in temporary.glob(name)]
    for home in {Path.home(), Path(pwd.getpwuid(os.getuid()).pw_dir)}:
        found += _entries(home)
    for folder in {parent for path in (results, *files) for parent in path.absolute().parents}:
        found += [folder / ".git"] if (folder / ".git").exists() else []
    needed = [*_interpreter(), *(Path(os.path.realpath(path)) for path in files)]
    open_to_all = {folder for place in needed for folder in (place, *place.parents)}
    return sorted({Path(os.path.realpath(path)) for path in found} - open_to_all)


def surroundings(
    temporary: Path, *, own: Sequence[Path], files: Sequence[Path], hidden: Sequence[Path]
) -> Surroundings:
    """Return what a process sees in a /tmp of its own: that folder, its `own` ones, and what it needs of the real one.

    That is the interpreter, as far as it lies there, and the folders of the `files` that it works on, less what is
    hidden: Landlock could not hide it there any more.
    """
    needed = {*map(Path, map(os.path.realpath, _interpreter())), *_interpreter(), *_beside(files)}
    if (compiled := interpreter.bytecode_folder()) is not None:
        needed.add(compiled)
    seen = set(landlock.visible({_placed(path) for path in needed if _shows(path)}, hidden))
    return Surroundings(
        temporary=str(temporary),
        own=tuple(sorted(str(_placed(path)) for path in own if _shows(path))),
        seen=tuple(sorted(map(str, seen))),
    )


def _shows(path: Path) -> bool:
    return namespaces.place() in _placed(path).parents


def _placed(path: Path) -> Path:
    """Return a path whose folders are real; it may itself be a link."""
    return Path(os.path.realpath(path.parent), path.name)


def _beside(files: Sequence[Path]) -> Iterator[Path]:
    """Yield what files may read in /tmp: the uppermost folder below it that holds one, as outside of /tmp.

    In a folder of a run of kbench, which holds other solutions too, that is the file's own; of a file right in /tmp,
    the sources beside it.
    """
    for file in files:
        for path in {file.absolute(), Path(os.path.realpath(file))}:
            if namespaces.place() not in path.parents:
                continue
            uppermost = namespaces.place() / path.relative_to(namespaces.place()).parts[0]
            if uppermost == path:
                yield path
                yield from (one for one in sorted(path.parent.iterdir()) if one.suffix in SOURCE_SUFFIXES)
            else:
                of_a_run = any(uppermost.match(name) for name in RUN_FOLDERS)
                yield from (path.parent, path) if of_a_run else (uppermost,)


def _entries(home: Path) -> list[Path]:
    try:
        return [home / entry.name for entry in os.scandir(home) if entry.name.startswith(".")]
    except OSError:
        return []


@functools.cache
def _interpreter() -> tuple[Path, ...]:
    """Return where Python, its packages, kbench and the compilers lie, links followed and not."""
    torch = importlib.util.find_spec("torch")
    places = [sys.executable, sys.prefix, sys.base_prefix, *sys.path, str(interpreter.PACKAGE)]
    places += [str(torch.origin)] if torch is not None else []
    places += [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if name in os.environ]
    places += os.environ.get("PATH", "").split(os.pathsep)
    absolute = [Path(place).absolute() for place in places if place]
    return tuple({*absolute, *(Path(os.path.realpath(path)) for path in absolute)})
