"""Accepted requests and their answers, in an SQLite file that outlives the server."""

import fcntl
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kbench.core.errors import MachineError

SCHEMA = """
CREATE TABLE IF NOT EXISTS tasks (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    task_id TEXT NOT NULL UNIQUE,
    digest TEXT NOT NULL,
    request TEXT NOT NULL,
    answer TEXT NOT NULL,
    is_done INTEGER NOT NULL DEFAULT 0,
    starts INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX IF NOT EXISTS open_tasks ON tasks (number) WHERE NOT is_done;
CREATE INDEX IF NOT EXISTS done_tasks ON tasks (json_extract(answer, '$.completed_at')) WHERE is_done;
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTask:
    """An accepted request and its answer so far; both as JSON."""

    task_id: str
    digest: str
    """Hash of the request, by which a repeated request differs from another one with the same id."""
    request: str
    answer: str
    starts: int = 0
    """Number of times that it was started: a started task without an answer may have ended the server."""


def unusable(path: Path, error: Exception) -> MachineError:
    """Describe a file that cannot be opened."""
    return MachineError(f"{path} cannot be opened: {error}", "name another folder with `--state`")


class TaskStore:
    """The tasks of one server. When a call returns, its change is on the disk and outlives the process."""

    def __init__(self, path: Path):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._lock = path.with_suffix(".lock").open("w")
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            message = f"another server answers from {path.parent}"
            raise MachineError(message, "end it, or name another folder with `--state`") from None
        except OSError as error:
            raise unusable(path, error) from error
        try:
            self._database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._database.row_factory = sqlite3.Row
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = NORMAL")
            self._database.executescript(SCHEMA)
        except sqlite3.Error as error:
            self._lock.close()
            raise unusable(path, error) from error

    def close(self) -> None:
        """Close the file, and let another server use it."""
        self._database.close()
        self._lock.close()

    def add(self, tasks: Iterable[StoredTask]) -> None:
        """Add new tasks, all of them or none."""
        rows = [(one.task_id, one.digest, one.request, one.answer) for one in tasks]
        with self._database:
            self._database.execute("BEGIN")
            self._database.executemany("INSERT INTO tasks (task_id, digest, request, answer) VALUES (?, ?, ?, ?)", rows)

    def begin(self, task_id: str, answer: str) -> None:
        """Count a start of a task."""
        self._database.execute("UPDATE tasks SET starts = starts + 1, answer = ? WHERE task_id = ?", (answer, task_id))

    def finish(self, task_id: str, answer: str) -> None:
        """Store the answer of a task and drop its sources."""
        query = "UPDATE tasks SET is_done = 1, request = '', answer = ? WHERE task_id = ?"
        self._database.execute(query, (answer, task_id))

    def forget(self, before_utc: str) -> None:
        """Delete the tasks with an answer before a time in ISO 8601. New tasks reuse their space."""
        query = "DELETE FROM tasks WHERE is_done AND json_extract(answer, '$.completed_at') < ?"
        self._database.execute(query, (before_utc,))

    def get(self, task_id: str) -> StoredTask | None:
        """Return a task; None if there is no such task."""
        found = self._read("WHERE task_id = ?", (task_id,))
        return found[0] if found else None

    def unfinished(self) -> list[StoredTask]:
        """Return the tasks without an answer, oldest first."""
        return self._read("WHERE NOT is_done ORDER BY number", ())

    def _read(self, where: str, values: tuple[str, ...]) -> list[StoredTask]:
        query = f"SELECT task_id, digest, request, answer, starts FROM tasks {where}"  # noqa: S608 - constants
        return [StoredTask(**row) for row in self._database.execute(query, values)]
