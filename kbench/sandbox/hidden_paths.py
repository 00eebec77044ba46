"""Files that a worker must not read although its user may: results, caches, folders of other runs, credentials.

Landlock denies them, and a worker's own /tmp (with namespaces) does not contain them. The problem's file is not
secret: it has neither seeds nor expected values, and the author of a solution has read it.
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
from kbench.catalog.script import python_path
from kbench.sandbox import landlock, namespaces
from kbench.sandbox.namespaces import Surroundings

RUN_FOLDERS = ("kbench-*", "ray")
"""Folders of runs, and of a node of a Ray cluster, in the system's folder for temporary files."""


def hidden(*, results: Path, others: Sequence[Path], files: Sequence[Path]) -> list[Path]:
    """Return the paths to hide from the workers of a run; `files` are its solutions and their problem.

    Hidden are the results and baselines, `others` (the cache, the queues for devices, the folder of this run) and the
    folders of other runs. A worker can still read its own folder. Hidden are also the entries of the home folder that
    begin with a dot, where credentials are kept, and `.git` of a checkout, where CI leaves its token. A folder stays
    readable if it holds a file without which no worker can run.
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
    """Return the contents of a process's own /tmp: that folder, its `own` ones, and needed parts of the real /tmp.

    Those parts are the interpreter's files in /tmp, the folders of `files` and of links to them, and the present
    folder, whose modules the files may import. Hidden paths are left out, because Landlock could not hide them in the
    new /tmp.
    """
    needed = {*map(Path, map(os.path.realpath, _interpreter())), *_interpreter(), *_beside(files), Path.cwd()}
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
    """Yield the paths in /tmp that files may read: for each, the folder directly below /tmp that contains it.

    Two kinds of file get less. A file in a run's folder, which holds other solutions too, gets its own folder. A file
    directly in /tmp gets the sources beside it.
    """
    for file in files:
        for path in {file.absolute(), Path(os.path.realpath(file))}:
            if namespaces.place() not in path.parents:
                continue
            uppermost = namespaces.place() / path.relative_to(namespaces.place()).parts[0]
            if uppermost == path:
                yield path
                yield from (one for one in sorted(path.parent.iterdir()) if one.suffix in interpreter.SOURCE_SUFFIXES)
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
    places = [sys.executable, sys.prefix, sys.base_prefix, *python_path(), str(interpreter.PACKAGE)]
    places += [str(torch.origin)] if torch is not None else []
    places += [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if name in os.environ]
    places += os.environ.get("PATH", "").split(os.pathsep)
    absolute = [Path(place).absolute() for place in places if place]
    return tuple({*absolute, *(Path(os.path.realpath(path)) for path in absolute)})
