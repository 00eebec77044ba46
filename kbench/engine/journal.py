"""The journal of a run or sweep: its arguments, a line for each finished unit and for each command that resumes it."""

import contextlib
import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from kbench.core.errors import ResultsError, UsageError
from kbench.core.version import __version__
from kbench.engine.task import TaskVerdict
from kbench.engine.unit import UnitResult
from kbench.storage import journal_file
from kbench.storage.journal_file import JournalFile, now_utc, whole_lines
from kbench.storage.json_values import plain, reader_of
from kbench.storage.runfiles import LATEST

FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The arguments of the command, so that its name is enough to resume it."""

    run: str
    started_utc: str
    arguments: dict[str, Any]
    command: str = "sweep"
    kbench_version: str = __version__
    format: int = FORMAT


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalLine:
    """A finished unit."""

    key: str
    process: int
    problem: str
    solution: str
    case: str
    claim: float | None = None
    device: str = ""
    at_utc: str
    result: UnitResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The content of a journal: results of each task's units, by the task's key, in the order of their processes."""

    header: Header
    results: dict[str, tuple[UnitResult, ...]]
    whole_bytes: int
    """Length of the file without an incomplete last line."""
    commands: tuple[tuple[str, list[JournalLine]], ...]
    """The start of every command, the one that began the sweep first, and the units that it judged."""

    @property
    def lines(self) -> list[JournalLine]:
        """The units that all commands judged."""
        return [line for _, lines in self.commands for line in lines]

    @property
    def fresh(self) -> set[str]:
        """Keys of the tasks of which the last command judged a unit."""
        return {line.key for line in self.commands[-1][1]}

    @property
    def units_per_hour(self) -> float | None:
        """All units by the time from the start of each command to its last unit; pauses in between do not count."""
        try:
            spans = [_time(lines[-1].at_utc) - _time(start_utc) for start_utc, lines in self.commands if lines]
        except ValueError:
            return None
        spent_s = sum(span.total_seconds() for span in spans)
        return 3600 * len(self.lines) / spent_s if spent_s > 0 else None


def _time(text: str) -> datetime:
    """Read a time; one without an offset is UTC. Raises ValueError."""
    found = datetime.fromisoformat(text)
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


class Journal(JournalFile):
    """The open journal of a run or a sweep; a context manager. It locks the file against other writers."""

    def __init__(self, path: Path, header: Header, *, resumed: Record | None = None):
        super().__init__(path, whole_bytes=resumed.whole_bytes if resumed is not None else None)
        self._header = header
        self._is_new = resumed is None

    def __enter__(self) -> Self:
        try:
            super().__enter__()
        except FileExistsError:
            hint = f"`--resume {self._header.run}` continues it, `--name` sets another name"
            raise UsageError(f"a {self._header.command} named `{self._header.run}` exists already", hint) from None
        self.write({"sweep": asdict(self._header)} if self._is_new else {"resumed": {"at_utc": now_utc()}})
        return self

    def append(self, verdict: TaskVerdict, device: str) -> None:
        """Write the result of a task's last unit; it is on the disk when this returns. Raises MachineError."""
        task = verdict.task
        line = JournalLine(
            key=task.key,
            process=len(verdict.results) - 1,
            problem=task.problem.name,
            solution=task.solution.name,
            case=task.case.name,
            claim=task.claim,
            device=device,
            at_utc=now_utc(),
            result=verdict.last,
        )
        self.write(plain(line))


def find(command: str, name: str, folder: Path) -> tuple[Path, Record]:
    """Return the journal of a command by its name, its path or `@latest`, and what it holds. Raises what `read` raises.

    Raises UsageError for none.
    """
    if name != LATEST:
        path = journal_file.find(command, name, folder)
        record = read(path)
        if record.header.command != command:
            hint = f"`kbench {record.header.command} --resume {name}` continues it"
            raise UsageError(f"`{name}` is not a {command}", hint)
        return path, record
    found = sorted(folder.glob(f"*{journal_file.SUFFIX}"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in found:
        with contextlib.suppress(ResultsError):  # a selftest's, or another version's
            if (record := read(path)).header.command == command:
                return path, record
    raise UsageError(f"no {command} in {folder} was broken off", "its journal would be there")


def read(path: Path) -> Record:
    """Read a journal: the last line about a unit counts, and a new first process replaces its task's results.

    Raises ResultsError for a file that is no journal of this version, and MachineError if it is unreadable.
    """
    lines, whole_bytes = whole_lines(path)
    header = _header(path, lines[0] if lines else b"")
    results: dict[str, tuple[UnitResult, ...]] = {}
    commands: list[tuple[str, list[JournalLine]]] = [(header.started_utc, [])]
    for number, line_text in enumerate(lines[1:], start=2):
        try:
            if "resumed" in (values := json.loads(line_text)):
                commands.append((str(values["resumed"]["at_utc"]), []))
                continue
            line = reader_of(JournalLine).validate_python(values)
            results[line.key] = _follow(results.get(line.key, ()), line.process, line.result)
            commands[-1][1].append(line)
        except (ValueError, RecursionError, KeyError, TypeError) as error:
            raise ResultsError(f"{path} is damaged in line {number}: {error}", "start it again") from error
    return Record(header=header, results=results, whole_bytes=whole_bytes, commands=tuple(commands))


def _follow(before: tuple[UnitResult, ...], process: int, result: UnitResult) -> tuple[UnitResult, ...]:
    if not 0 <= process <= len(before):
        raise ValueError(f"process {process} without the one before")
    return (*before[:process], result)


def _header(path: Path, line: bytes) -> Header:
    try:
        header = Header(**json.loads(line)["sweep"])
    except (ValueError, RecursionError, KeyError, TypeError) as error:
        raise ResultsError(
            f"{path} is not the journal of a run or sweep", "name one of `kbench run` or `kbench sweep`"
        ) from error
    if header.format != FORMAT:
        raise ResultsError(f"{path} has format {header.format}, not {FORMAT}", "start it again")
    if header.kbench_version != __version__:
        message = f"{path} was started by kbench {header.kbench_version}, and this is {__version__}"
        raise ResultsError(message, "verdicts of two versions are not mixed: start it again")
    return header
