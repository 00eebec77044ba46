"""What a run tells beyond its rows: findings in full, logs, where time went, the device's peaks, the command.

It lies beside the rows as `<run>.details.json`. Readers are shown it; no verdict rests on it, so it has no hash.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kbench.core.diagnosis import Diagnosis
from kbench.core.model import Finding, Peaks
from kbench.storage import csvfile

SUFFIX = ".details.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseDetails:
    """What is told of one (solution, case)."""

    solution: str
    case: str
    findings: tuple[Finding, ...] = ()
    diagnosis: Diagnosis | None = None
    log: str = ""
    """The tail of what the solution printed."""
    stage_s: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDetails:
    """What is told of a run. It belongs to the rows that began at `started_utc`."""

    started_utc: str
    command: str = ""
    """As it was typed."""
    elapsed_s: float | None = None
    reference_s: dict[str, dict[str, float]] = field(default_factory=dict)
    """Seconds of the judge's own side by case and stage."""
    peaks: Peaks | None = None
    cases: tuple[CaseDetails, ...] = ()

    def of(self, solution: str, case: str) -> CaseDetails | None:
        """Return what is told of a solution on a case."""
        return next((one for one in self.cases if (one.solution, one.case) == (solution, case)), None)


def details_path(csv_path: Path) -> Path:
    """Path of the details that belong to a results CSV."""
    return csv_path.with_name(csv_path.name.removesuffix(".csv") + SUFFIX)


def write(csv_path: Path, details: RunDetails) -> None:
    """Write the details beside their rows. Raises MachineError where the disk is full or not writable."""
    text = json.dumps(asdict(details), indent=1, ensure_ascii=False)
    csvfile.replace_file(details_path(csv_path), text.encode("utf-8", "replace").decode() + "\n")


def read(csv_path: Path, started_utc: str) -> RunDetails | None:
    """Read the details of the rows that began then; None where there are none, or not of these rows."""
    from pydantic import TypeAdapter, ValidationError

    try:
        told: Mapping[str, Any] = json.loads(details_path(csv_path).read_text(encoding="utf-8"))
        found = TypeAdapter(RunDetails).validate_python(told)
    except (OSError, ValueError, ValidationError):
        return None
    return found if found.started_utc == started_utc else None
