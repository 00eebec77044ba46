"""Published results tables, such as `results/published/*.csv`: published kernels, claims and verdicts."""

from pathlib import Path
from typing import Any

from kbench.storage import csvfile

COLUMNS: dict[str, Any] = {
    **dict.fromkeys(("task", "name", "status", "level", "lacks", "attestation", "flags", "reason", "gpu"), str),
    **dict.fromkeys(("claimed", "speedup", "speedup_low", "speedup_high"), float | None),
}
"""Types of the columns that are read; `results/published/README.md` says what each means."""


def is_published(path: Path) -> bool:
    """Return whether a file is a published table and not a results file, by its header."""
    with path.open(encoding="utf-8", errors="replace") as stream:
        header = stream.readline(10_000).rstrip("\n").split(",")
    return "schema_version" not in header and {"task", "claimed", "status"} <= set(header)


def read_published(path: Path) -> list[dict[str, Any]]:
    """Read a table. Raises ResultsError: the file is truncated, lacks a column, or has text where a number belongs."""
    (_, header), *lines = csvfile.read_table(path)
    missing = [name for name in COLUMNS if name not in header]
    if missing:
        raise csvfile.refuse(path, f"has no column `{missing[0]}`")
    return [csvfile.parse_cells(path, number, header, cells, COLUMNS) for number, cells in lines]
