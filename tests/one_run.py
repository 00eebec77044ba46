"""One `kbench run --json` in a process of its own: what it told, and how long it took."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TO_END_S = 15.0
"""For what kbench does when it is told to end."""


def ask(arguments: Sequence[str], limit_s: float) -> tuple[dict[str, Any], float]:
    """Run `kbench run` with these arguments; return its document and the seconds that it took.

    Without a document, the status of what is returned is `no_row` and its reason says why.
    """
    command = [sys.executable, "-m", "kbench", "run", *arguments, "--quick", "--no-save", "--json"]
    where = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    began = time.monotonic()
    process = subprocess.Popen(command, env=where, start_new_session=True, **pipes)
    try:
        out, err = process.communicate(timeout=limit_s)
        said = (err.strip().splitlines() or [""])[-1]
        told = json.loads(out)
    except subprocess.TimeoutExpired:
        end(process)
        told = {"status": "no_row", "reason": f"it took longer than {limit_s:.0f} s"}
    except ValueError:
        told = {"status": "no_row", "reason": f"exit code {process.returncode} and no document: {said}"}
    except BaseException:
        end(process)
        raise
    return told, round(time.monotonic() - began, 1)


def end(process: subprocess.Popen[str]) -> None:
    """Have kbench end its own processes, and end what is left of them."""
    process.terminate()
    try:
        process.communicate(timeout=TO_END_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def verdict(told: dict[str, Any]) -> dict[str, Any]:
    """Return what a document says of its first solution and case; of the command where it judged none.

    Texts are of one line. `row` is the first row of the results file.
    """
    one = next(iter(told.get("results") or ()), told)
    row = next(iter(one.get("rows") or ()), {})
    return {**one, "row": row, "reason": " ".join(str(one.get("reason") or "").split())}
