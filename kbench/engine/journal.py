"""The journal of a run, a sweep or a selftest: its arguments, and a line for each finished unit or fixture."""

import contextlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from kbench.core.errors import ResultsError, UsageError
from kbench.core.version import __version__
from kbench.engine.task import TaskVerdict
from kbench.engine.unit import UnitResult
from kbench.storage import journal_file
from kbench.storage.journal_file import JournalFile, whole_lines
from kbench.storage.json_values import plain, reader_of
from kbench.storage.runfiles import LATEST


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The arguments of the command, so that its name is enough to resume it."""

    run: str
    started_utc: str
    arguments: dict[str, Any]
    command: str = "sweep"
    kbench_version: str = __version__


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalLine:
    """A finished unit."""

    key: str
    process: int
    problem: str
    solution: str
    case: str
    claim: float | None = None
    elapsed_s: float
    """Seconds that the command had taken by then, those of the commands that it resumes included."""
    result: UnitResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The content of a journal; each of its lines has the seconds that the command had taken by then."""

    header: Header
    whole_bytes: int
    """Length of the file without an incomplete last line."""
    lines: tuple[Any, ...]
    results: dict[str, tuple[UnitResult, ...]] = field(default_factory=dict)
    """Results of each task's units, by the task's key, in the order of their processes."""

    @property
    def elapsed_s(self) -> float:
        """Seconds from the start of each command to its last line; pauses in between do not count."""
        elapsed_s: float = self.lines[-1].elapsed_s if self.lines else 0.0
        return elapsed_s

    @property
    def units_per_hour(self) -> float | None:
        """Rate of all units of all commands; None without a unit."""
        return per_hour(len(self.lines), self.elapsed_s)


def per_hour(units: int, elapsed_s: float) -> float | None:
    """Return a rate; None without a unit."""
    return 3600 * units / elapsed_s if elapsed_s > 0 else None


class Journal(JournalFile):
    """The open journal of a command; a context manager. It locks the file against other writers."""

    def __init__(self, path: Path, header: Header, *, resumed: Record | None = None):
        way_out = f"write elsewhere with `{'--save' if header.command == 'selftest' else '--results'} DIR`"
        super().__init__(path, whole_bytes=resumed.whole_bytes if resumed is not None else None, way_out=way_out)
        self._header = header
        self.resumed = resumed
        self.units, self.elapsed_s = (len(resumed.lines), resumed.elapsed_s) if resumed is not None else (0, 0.0)
        """Number of the lines, and the seconds that the last one has."""
        self._began = time.monotonic() - self.elapsed_s

    def __enter__(self) -> Self:
        try:
            super().__enter__()
        except FileExistsError:
            hint = f"`--resume {self._header.run}` continues it, `--name` sets another name"
            raise UsageError(f"a {self._header.command} named `{self._header.run}` exists already", hint) from None
        if self.resumed is None:
            self.write({"sweep": plain(self._header)})
        return self

    def append(self, verdict: TaskVerdict) -> None:
        """Write the result of a task's last unit; it is on the disk when this returns. Raises MachineError."""
        task, elapsed_s = verdict.task, time.monotonic() - self._began
        line = JournalLine(
            key=task.key,
            process=len(verdict.results) - 1,
            problem=task.problem.name,
            solution=task.solution.name,
            case=task.case.name,
            claim=task.claim,
            elapsed_s=elapsed_s,
            result=verdict.last,
        )
        self.write(plain(line))
        self.units, self.elapsed_s = self.units + 1, elapsed_s


def find(command: str, name: str, folder: Path, kind: type = JournalLine) -> tuple[Path, Record]:
    """Return the journal of a command by its name, its path or `@latest`, and what it holds. Raises what `read` raises.

    Raises UsageError for none.
    """
    if name != LATEST:
        path = journal_file.find(command, name, folder)
        header = _header(path, whole_lines(path)[0])
        if header.command != command:
            raise UsageError(f"`{name}` is not a {command}", f"`kbench {header.command} --resume {name}` continues it")
        return path, read(path, kind)
    found = sorted(folder.glob(f"*{journal_file.SUFFIX}"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in found:
        with contextlib.suppress(ResultsError):  # another command's or version's
            if (record := read(path, kind)).header.command == command:
                return path, record
    raise UsageError(f"no {command} in {folder} was broken off", "`kbench list --runs` shows saved runs")


def read(path: Path, kind: type = JournalLine) -> Record:
    """Read a journal with lines of a kind: the last one about a unit counts, and a new first process replaces all.

    Raises ResultsError for a file that is no journal of this version, and MachineError if it is unreadable.
    """
    lines, whole_bytes = whole_lines(path)
    header, found = _header(path, lines), list[Any]()
    results: dict[str, tuple[UnitResult, ...]] = {}
    for number, line_text in enumerate(lines[1:], start=2):
        try:
            line = reader_of(kind).validate_json(line_text)
            if isinstance(line, JournalLine):
                results[line.key] = _follow(results.get(line.key, ()), line.process, line.result)
            found.append(line)
        except ValueError as error:
            raise ResultsError(f"{path} is damaged in line {number}: {error}", "start it again") from error
    return Record(header=header, results=results, whole_bytes=whole_bytes, lines=tuple(found))


def _follow(before: tuple[UnitResult, ...], process: int, result: UnitResult) -> tuple[UnitResult, ...]:
    if not 0 <= process <= len(before):
        raise ValueError(f"process {process} without the one before")
    return (*before[:process], result)


def _header(path: Path, lines: Sequence[bytes]) -> Header:
    try:
        header = Header(**json.loads(lines[0])["sweep"])
    except (ValueError, RecursionError, LookupError, TypeError) as error:
        raise ResultsError(f"{path} is not the journal of a command", "name a command that was broken off") from error
    if header.kbench_version != __version__:
        message = f"{path} was started by kbench {header.kbench_version}, and this is {__version__}"
        raise ResultsError(message, "verdicts of two versions are not mixed: start it again")
    return header
