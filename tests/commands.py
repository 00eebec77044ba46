"""Commands of kbench as processes of their own."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


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
