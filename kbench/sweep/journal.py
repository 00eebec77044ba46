"""The journal of a sweep: append-only, one line for each finished unit, on the disk before it is reported.

The first line has the command's arguments; every command that resumes the sweep adds a line with its start. A kill at
any moment leaves the earlier lines intact; `--resume` cuts off an incomplete last line.
"""

import fcntl
import json
import os
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from kbench.core.errors import MachineError, ResultsError, UsageError
from kbench.core.version import __version__
from kbench.storage.csvfile import write_failed
from kbench.storage.json_values import plain
from kbench.sweep.task import Task
from kbench.units.unit import UnitResult, result_from_json

FORMAT = 1
SUFFIX = ".journal.jsonl"


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


class Journal:
    """The open journal of a running sweep; a context manager. It locks the file against other writers."""

    def __init__(self, path: Path, header: Header, *, resumed: Record | None = None):
        self.path = path
        self._header = header
        self._resumed = resumed
        self._descriptor = -1
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | (0 if self._resumed else os.O_CREAT | os.O_EXCL)
            self._descriptor = os.open(self.path, flags, 0o644)
            self._claim()
            if self._resumed is None:
                self._write({"sweep": asdict(self._header)})
                _sync_folder(self.path.parent)
            else:
                os.ftruncate(self._descriptor, self._resumed.whole_bytes)
                self._write({"resumed": {"at_utc": _now()}})
        except FileExistsError:
            hint = f"`--resume {self._header.run}` continues it, `--name` sets another name"
            raise UsageError(f"a sweep named `{self._header.run}` exists already", hint) from None
        except OSError as error:
            raise write_failed(self.path, error) from error
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Take no more results: `append` raises from now on."""
        with self._lock:
            if self._descriptor >= 0:
                os.close(self._descriptor)
            self._descriptor = -1

    def append(self, task: Task, process: int, result: UnitResult, device: str) -> None:
        """Write the result of a unit; it is on the disk when this returns. Raises MachineError."""
        told = {
            "key": task.key,
            "process": process,
            "problem": task.problem.name,
            "solution": task.solution.name,
            "case": task.case.name,
            "claim": task.claim,
            "device": device,
            "at_utc": _now(),
            "result": plain(result),
        }
        try:
            with self._lock:
                self._write(told)
        except OSError as error:
            raise write_failed(self.path, error) from error

    def _claim(self) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            message = f"another process is running `{self._header.run}`"
            raise MachineError(message, "wait for it, or end it") from None

    def _write(self, told: Mapping[str, Any]) -> None:
        text = json.dumps(told, separators=(",", ":"), allow_nan=False, ensure_ascii=True) + "\n"
        data = text.encode()
        before = os.fstat(self._descriptor).st_size
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
            os.fsync(self._descriptor)
        except OSError:
            os.ftruncate(self._descriptor, before)  # half of a line would spoil the next one
            raise


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def find(name: str, results: Path) -> Path:
    """Return the path of a sweep's journal, by the sweep's name or the path of its journal or CSV.

    Raises UsageError if there is none.
    """
    stem = name.removesuffix(SUFFIX).removesuffix(".csv")
    for path in (Path(f"{stem}{SUFFIX}"), results / f"{stem}{SUFFIX}"):
        if path.is_file():
            return path
    known = sorted(path.name.removesuffix(SUFFIX) for path in results.glob(f"*{SUFFIX}")) if results.is_dir() else []
    hint = f"sweeps in {results}: {', '.join(known[-5:])}" if known else f"there is no sweep in {results}"
    raise UsageError(f"no sweep named `{name}`", hint)


def read(path: Path) -> Record:
    """Read a journal. The last line about a unit counts; a new first process replaces all results of its task.

    Raises ResultsError for a file that is not a journal or has another version, and MachineError if it is unreadable.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise MachineError(f"{path} cannot be read: {error.strerror}", "check its permissions") from error
    whole_bytes = data.rfind(b"\n") + 1
    lines = data[:whole_bytes].splitlines()
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
