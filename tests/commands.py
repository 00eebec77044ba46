"""Commands of kbench: as processes of their own, and how one that runs in the test's process ended."""

import csv
import io
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
COMMON = {
    *("schema", "command", "kbench_version", "status", "reason", "hint", "exit_code"),
    *("findings", "speedup", "results"),
}
"""Keys of every document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """What `--json` printed: it has the keys of every document, and no NaN."""
        found = json.loads(self.out, parse_constant=lambda name: pytest.fail(f"{name} in a document"))
        assert set(found) >= COMMON
        return found

    @property
    def rows(self) -> list[dict[str, str]]:
        """What `--format csv` printed."""
        return [*csv.DictReader(io.StringIO(self.out))]


def start(folder: Path, *words: str, **environment: str) -> subprocess.Popen[str]:
    """Start `kbench` in a folder, with all streams as pipes."""
    known = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    command = [sys.executable, "-m", "kbench", *words]
    return subprocess.Popen(command, cwd=folder, env=known, start_new_session=True, text=True, **pipes)


def finish(process: subprocess.Popen[str], limit_s: float = 600.0) -> tuple[int, str, str]:
    """Wait for a process; return its exit code and what it printed."""
    out, err = process.communicate(timeout=limit_s)
    return process.returncode, out, err
