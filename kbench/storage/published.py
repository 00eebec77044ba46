"""Published results tables, such as `results/published/*.csv`: published kernels, claims and verdicts."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import get_type_hints

from kbench.storage import csvfile


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRow:
    """One kernel; `results/published/README.md` says what each column means. Other columns are ignored."""

    task: str
    name: str
    claimed: float | None
    status: str
    level: str
    lacks: str
    """Codes, separated by spaces."""
    speedup: float | None
    speedup_low: float | None
    speedup_high: float | None
    attestation: str
    flags: str
    reason: str
    gpu: str
    kbench: str
    """The commit of kbench that judged it."""


COLUMNS = tuple(field.name for field in fields(PublishedRow))
TYPES = get_type_hints(PublishedRow)


def is_published(path: Path) -> bool:
    """Return whether a file is a published table and not a results file, by its header."""
    with path.open(encoding="utf-8", errors="replace") as stream:
        header = stream.readline(10_000).rstrip("\n").split(",")
    return "schema_version" not in header and {"task", "claimed", "status"} <= set(header)


def read_published(path: Path) -> list[PublishedRow]:
    """Read a table. Raises ResultsError: the file is truncated, lacks a column, or has text where a number belongs."""
    lines = csvfile.read_table(path)
    header = lines[0][1]
    missing = [name for name in COLUMNS if name not in header]
    if missing:
        raise csvfile.refuse(path, f"has no column `{missing[0]}`")
    return [PublishedRow(**csvfile.parse_cells(path, number, header, cells, TYPES)) for number, cells in lines[1:]]
