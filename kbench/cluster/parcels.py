"""Sources that are sent to other hosts, by the hash of their content."""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from kbench.build import sources
from kbench.core.errors import MachineError
from kbench.plugins.registry import Entry
from kbench.sweep.task import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """One source with the local files that it reads; paths are relative to their common folder."""

    sha256: str
    main: str
    files: Mapping[str, bytes]


def pack(path: Path) -> Parcel:
    """Read a source and its dependencies. Raises OSError."""
    start = path.resolve()
    paths = [start, *(p for p in sources.dependencies(start) if not p.is_relative_to(sources.PACKAGE) and p != start)]
    root = Path(os.path.commonpath([p.parent for p in paths]))
    files = {str(p.relative_to(root)): p.read_bytes() for p in sorted(paths)}
    return Parcel(sha256=digest(files), main=str(start.relative_to(root)), files=files)


def digest(files: Mapping[str, bytes]) -> str:
    """Return the hash of names and contents."""
    found = hashlib.sha256()
    for name, content in sorted(files.items()):
        found.update(f"{len(name)} {name} {len(content)} ".encode() + content)
    return found.hexdigest()


def unpack(parcel: Parcel, folder: Path) -> Path:
    """Write a parcel below a folder, once; return the path of its source. Raises MachineError for a damaged parcel."""
    if digest(parcel.files) != parcel.sha256:
        raise MachineError(f"a source arrived damaged: {parcel.main}", "run the sweep again with `--resume`")
    home = folder / parcel.sha256[:32]
    if not home.is_dir():
        for name, content in parcel.files.items():
            place = home / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
    return home / parcel.main


def travels(entry: Entry) -> bool:
    """Return whether an entry's source is a user's file, not one that kbench ships."""
    return not entry.path.resolve().is_relative_to(sources.PACKAGE)


def shipped(path: Path) -> str:
    """Return the path of a shipped source relative to the package, the same on any host."""
    return str(path.resolve().relative_to(sources.PACKAGE))


@dataclass(frozen=True, slots=True, kw_only=True)
class Addressed:
    """A task without paths of the driver's host: each source is the hash of a parcel or a path in the package."""

    task: Task
    problem: str
    solution: str


def address(task: Task, hashes: Mapping[Path, str]) -> Addressed:
    """Replace a task's paths by parcel hashes or package paths; `hashes` has the parcels' hashes by path."""

    def named(entry: Entry) -> str:
        return f"sha256:{hashes[entry.path]}" if travels(entry) else shipped(entry.path)

    return Addressed(task=task, problem=named(task.problem), solution=named(task.solution))


def settle(addressed: Addressed, places: Mapping[str, Path]) -> Task:
    """Return the task with paths on this host; `places` has the paths of unpacked sources by hash."""

    def found(entry: Entry, where: str) -> Entry:
        kind, _, sha256 = where.rpartition(":")
        return replace(entry, path=places[sha256] if kind else sources.PACKAGE / where)

    task = addressed.task
    return replace(
        task, problem=found(task.problem, addressed.problem), solution=found(task.solution, addressed.solution)
    )
