"""The journal of a sweep: one line for each finished unit.

The first line has the command's arguments; every command that resumes the sweep adds a line with its start.
"""

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from kbench.core.errors import ResultsError, UsageError
from kbench.core.version import __version__
from kbench.storage.journal_file import JournalFile, now_utc, whole_lines
from kbench.storage.json_values import plain
from kbench.sweep.task import Task
from kbench.units.unit import UnitResult, result_from_json

FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The arguments of the sweep, so that its name is enough to resume it."""

    run: str
    started_utc: str
    arguments: dict[str, Any]
    kbench_version: str = __version__
    format: int = FORMAT


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalLine:
    """The fields of a line beside the result of its unit."""

    key: str
    command: int
    """Which command judged it, as a place in `Record.starts_utc`."""
    problem: str
    solution: str
    case: str
    claim: float | None
    at_utc: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What a journal holds: the results of each task's units, by the task's key, in the order of their processes."""

    header: Header
    results: dict[str, tuple[UnitResult, ...]]
    lines: tuple[JournalLine, ...]
    whole_bytes: int
    """Length of the file without an incomplete last line."""
    starts_utc: tuple[str, ...]
    """The start of every command: of the one that began the sweep, and of those that resumed it."""

    @property
    def fresh(self) -> set[str]:
        """Keys of the tasks of which the last command judged a unit."""
        return {line.key for line in self.lines if line.command == len(self.starts_utc) - 1}

    @property
    def units_per_hour(self) -> float | None:
        """All units by the time from the start of each command to its last unit; pauses in between do not count."""
        ends = {line.command: line.at_utc for line in self.lines}
        try:
            spans = [_time(end) - _time(self.starts_utc[command]) for command, end in ends.items()]
        except ValueError:
            return None
        spent_s = sum(span.total_seconds() for span in spans)
        return 3600 * len(self.lines) / spent_s if spent_s > 0 else None


def _time(text: str) -> datetime:
    """Read a time; one without an offset is UTC. Raises ValueError."""
    found = datetime.fromisoformat(text)
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


class Journal(JournalFile):
    """The open journal of a running sweep; a context manager. It locks the file against other writers."""

    def __init__(self, path: Path, header: Header, *, resumed: Record | None = None):
        super().__init__(path, whole_bytes=resumed.whole_bytes if resumed is not None else None)
        self._header = header
        self._is_new = resumed is None

    def __enter__(self) -> Self:
        try:
            super().__enter__()
        except FileExistsError:
            hint = f"`--resume {self._header.run}` continues it, `--name` sets another name"
            raise UsageError(f"a sweep named `{self._header.run}` exists already", hint) from None
        self.write({"sweep": asdict(self._header)} if self._is_new else {"resumed": {"at_utc": now_utc()}})
        return self

    def append(self, task: Task, process: int, result: UnitResult, device: str) -> None:
        """Write the result of a unit; it is on the disk when this returns. Raises MachineError."""
        self.write(
            {
                "key": task.key,
                "process": process,
                "problem": task.problem.name,
                "solution": task.solution.name,
                "case": task.case.name,
                "claim": task.claim,
                "device": device,
                "at_utc": now_utc(),
                "result": plain(result),
            }
        )


def read(path: Path) -> Record:
    """Read a journal. The last line about a unit counts; a new first process replaces all results of its task.

    Raises ResultsError for a file that is not a journal or has another version, and MachineError if it is unreadable.
    """
    lines, whole_bytes = whole_lines(path)
    header = _header(path, lines[0] if lines else b"")
    results: dict[str, tuple[UnitResult, ...]] = {}
    told_lines: list[JournalLine] = []
    starts = [header.started_utc]
    for number, line in enumerate(lines[1:], start=2):
        try:
            told = json.loads(line)
            if "resumed" in told:
                starts.append(str(told["resumed"]["at_utc"]))
                continue
            key, process = str(told["key"]), int(told["process"])
            results[key] = _follow(results.get(key, ()), process, result_from_json(told["result"]))
            kept = {name: told[name] for name in ("problem", "solution", "case", "at_utc")}
            claim = told.get("claim")
            claim = None if claim is None else float(claim)
            told_lines.append(JournalLine(key=key, command=len(starts) - 1, claim=claim, **kept))
        except (ValueError, RecursionError, KeyError, TypeError, ResultsError) as error:
            raise ResultsError(f"{path} is damaged in line {number}: {error}", "start the sweep again") from error
    return Record(
        header=header,
        results=results,
        lines=tuple(told_lines),
        whole_bytes=whole_bytes,
        starts_utc=tuple(starts),
    )


def _follow(before: tuple[UnitResult, ...], process: int, result: UnitResult) -> tuple[UnitResult, ...]:
    if not 0 <= process <= len(before):
        raise ValueError(f"process {process} without the one before")
    return (*before[:process], result)


def _header(path: Path, line: bytes) -> Header:
    try:
        told = json.loads(line)["sweep"]
        header = Header(**told)
    except (ValueError, RecursionError, KeyError, TypeError) as error:
        raise ResultsError(f"{path} is not the journal of a sweep", "name a run of `kbench sweep`") from error
    if header.format != FORMAT:
        raise ResultsError(f"{path} has format {header.format}, not {FORMAT}", "start the sweep again")
    if header.kbench_version != __version__:
        message = f"{path} was started by kbench {header.kbench_version}, and this is {__version__}"
        raise ResultsError(message, "verdicts of two versions are not mixed: start the sweep again")
    return header
