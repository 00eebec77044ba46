"""Sources that are sent to other hosts, by the hash of their content."""

import hashlib
import itertools
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from kbench.build import manifest
from kbench.build.interpreter import PACKAGE, SOURCE_SUFFIXES
from kbench.engine.task import Task

MAX_FILES = 200
"""Files that are sent with a source whose manifest is not known yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """One source with the local files that it reads; paths are relative to their common folder.

    A shipped source travels without files: its path in the package is the same on any host.
    """

    sha256: str = ""
    main: str
    files: Mapping[str, bytes] = field(default_factory=dict)


def pack(path: Path) -> Parcel:
    """Read a source and what it needs: the files of its manifest, or the sources below its folder. Raises OSError."""
    start = path.resolve()
    if start.is_relative_to(PACKAGE):
        return Parcel(main=str(start.relative_to(PACKAGE)))
    known = manifest.current(start).paths(start)[1:]
    beside = (file for file in sorted(start.parent.rglob("*")) if file.suffix in SOURCE_SUFFIXES and file.is_file())
    needed = known or [*itertools.islice(beside, MAX_FILES)]
    paths = [start, *(p for p in needed if p != start and p.is_file() and not p.is_relative_to(PACKAGE))]
    root = Path(os.path.commonpath([p.parent for p in paths]))
    files = {str(p.relative_to(root)): p.read_bytes() for p in sorted(paths)}
    return Parcel(sha256=digest(files, main := str(start.relative_to(root))), main=main, files=files)


def digest(files: Mapping[str, bytes], main: str) -> str:
    """Return the hash of names and contents, and of which file is the source."""
    found = hashlib.sha256(main.encode())
    for name, content in sorted(files.items()):
        found.update(f"{len(name)} {name} {len(content)} ".encode() + content)
    return found.hexdigest()


def unpack(parcel: Parcel, folder: Path) -> Path:
    """Write a parcel below a folder, once; return the path of its source."""
    if not parcel.files:
        return PACKAGE / parcel.main
    home = folder / parcel.sha256[:32]
    if not home.is_dir():
        for name, content in parcel.files.items():
            place = home / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
    return home / parcel.main


def settle(task: Task, places: Mapping[Path, Path]) -> Task:
    """Return a task of another host with the paths of its sources here, by those there."""
    problem, solution = (replace(entry, path=places[entry.path]) for entry in (task.problem, task.solution))
    return replace(task, problem=problem, solution=solution)
