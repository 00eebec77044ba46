"""How long verdicts took, from the details of earlier runs."""

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kbench.storage import details
from kbench.storage.runfiles import run_files

MOST_RUNS = 50
"""Number of newest runs that are read, which takes about 10 ms."""


def last_duration_s(
    folder: Path, *, problem_sha256: str, overrides: Mapping[str, Any], device: str, timed: bool
) -> float | None:
    """Return the longest time that a solution took in the newest run of these constants on this device.

    None where there is no such run. Runs that timed count for such, and runs that verified for the others; what did
    not pass may have ended early and does not count. Files that cannot be read are passed over.
    """
    recorded = [path for path in run_files(folder) if details.details_path(path).is_file()]
    for path in sorted(recorded, key=lambda path: path.stat().st_mtime, reverse=True)[:MOST_RUNS]:
        rows = [row for row in _rows(path) if _is_of(row, problem_sha256, overrides, device)]
        told = details.read(path, rows[0]["started_utc"]) if rows else None
        found = [one.stage_s for row in rows if told and (one := told.of(row["solution"], row["case"])) is not None]
        spent = [sum(stage_s.values()) for stage_s in found if ("time" in stage_s) == timed]
        if spent:
            return max(spent)
    return None


def _rows(path: Path) -> list[dict[str, str]]:
    try:
        with path.open(encoding="utf-8", newline="") as lines:
            return [*csv.DictReader(lines)]
    except (OSError, ValueError, csv.Error):
        return []


def _is_of(row: Mapping[str, str], problem_sha256: str, overrides: Mapping[str, Any], device: str) -> bool:
    given = json.dumps(dict(overrides), sort_keys=True, default=str)
    known = (row.get("problem_sha256"), row.get("gpu_uuid"), row.get("status"))
    try:
        constants = json.dumps(json.loads(row.get("overrides") or "{}"), sort_keys=True)
    except ValueError:
        return False
    return known == (problem_sha256, device, "passed") and constants == given
