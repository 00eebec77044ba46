"""Details of a run beside its rows, in `<run>.details.json`, for readers only: no verdict depends on them."""

import contextlib
import csv
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kbench.core.diagnosis import Diagnosis
from kbench.core.model import Finding
from kbench.core.printable import printable
from kbench.storage import csvfile
from kbench.storage.json_values import reader_of
from kbench.storage.runfiles import run_files

SUFFIX = ".details.json"
MOST = 1e300
"""A number beyond it, or none at all, is nothing that was measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseDetails:
    """Details of one (solution, case)."""

    solution: str
    case: str
    findings: tuple[Finding, ...] = ()
    diagnosis: Diagnosis | None = None
    log: str = ""
    """The tail of what the solution printed."""
    stage_s: dict[str, float] = field(default_factory=dict)
    weight: float = 1.0
    """Number of times that the case counts in means over several cases."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDetails:
    """Details of a run. They belong to the rows that started at `started_utc`."""

    started_utc: str
    command: str = ""
    elapsed_s: float | None = None
    reference_s: dict[str, dict[str, float]] = field(default_factory=dict)
    """Seconds of the judge's own side by case and stage."""
    cases: tuple[CaseDetails, ...] = ()

    def of(self, solution: str, case: str) -> CaseDetails | None:
        """Return the details of a solution on a case."""
        return next((one for one in self.cases if (one.solution, one.case) == (solution, case)), None)

    @property
    def weights(self) -> dict[str, float]:
        """Weight of each case that has one."""
        return {one.case: one.weight for one in self.cases if one.weight != 1}


def details_path(csv_path: Path) -> Path:
    """Path of the details that belong to a results CSV."""
    return csv_path.with_name(csv_path.name.removesuffix(".csv") + SUFFIX)


def write(csv_path: Path, details: RunDetails) -> None:
    """Write the details beside their rows. Raises MachineError if the disk is full or not writable."""
    text = json.dumps(asdict(details), indent=1, ensure_ascii=False)
    csvfile.replace_file(details_path(csv_path), text.encode("utf-8", "replace").decode() + "\n")


def read(csv_path: Path, started_utc: str) -> RunDetails | None:
    """Read the details of the rows that started then; None if there are none for these rows."""
    try:
        content: Mapping[str, Any] = json.loads(details_path(csv_path).read_text(encoding="utf-8"))
        found: RunDetails = reader_of(RunDetails).validate_python(_harmless(content))
    except (OSError, ValueError, RecursionError):
        return None
    fits = found.started_utc == started_utc and all(one.weight > 0 for one in found.cases)
    return found if fits else None


def _harmless(value: Any, key: str = "") -> Any:
    """Return a file's values with harmless texts: one line each, except a `log`. Raises ValueError for NaN."""
    if isinstance(value, int | float) and not abs(value) <= MOST:
        raise ValueError(value)
    if isinstance(value, str):
        return printable(value.expandtabs()) if key == "log" else csvfile.one_line(value)
    if isinstance(value, dict):
        return {_harmless(name): _harmless(item, name) for name, item in value.items()}
    return [_harmless(item) for item in value] if isinstance(value, list) else value


MOST_RUNS = 50
"""Number of newest runs that are read, which takes about 10 ms."""


def last_duration_s(
    folder: Path, *, problem_sha256: str, overrides: Mapping[str, Any], device: str, timed: bool
) -> float | None:
    """Return the longest time that a solution took in the newest run of these constants on this device, or None.

    Only what passed counts, and runs that `timed` only for runs that do. Unreadable files are passed over.
    """
    wanted = problem_sha256, device, "passed", json.loads(json.dumps(dict(overrides), default=str))
    recorded = [path for path in run_files(folder) if details_path(path).is_file()]
    for path in sorted(recorded, key=lambda path: path.stat().st_mtime, reverse=True)[:MOST_RUNS]:
        with contextlib.suppress(OSError, ValueError, KeyError, csv.Error):
            for row in csv.DictReader(path.read_text(encoding="utf-8").splitlines()):
                key = row["problem_sha256"], row["gpu_uuid"], row["status"], json.loads(row["overrides"] or "{}")
                kept = read(path, row["started_utc"]) if key == wanted else None
                stages = [one.stage_s for one in kept.cases if one.case == row["case"]] if kept is not None else []
                if spent := [sum(stage_s.values()) for stage_s in stages if ("time" in stage_s) == timed]:
                    return max(spent)
    return None
