"""Records as CSV text: the columns of the dataclass, the same cells as in the results files."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kbench.core.model import ResultRow
from kbench.storage import csvfile


def render_rows(rows: Iterable[ResultRow]) -> str:
    """Write result rows with the columns of a results file."""
    return render_records(rows, ResultRow)


def render_records(records: Iterable[Any], kind: type) -> str:
    """Write dataclass records of one kind, a header first; None is an empty cell."""
    names = [field.name for field in dataclasses.fields(kind)]
    return render_cells(names, ([getattr(record, name) for name in names] for record in records))


def render_lines(lines: Sequence[Mapping[str, Any]]) -> str:
    """Write mappings of one set of keys, these as the header."""
    return render_cells([*lines[0]] if lines else [], (line.values() for line in lines))


def render_cells(names: Sequence[str], rows: Iterable[Iterable[Any]]) -> str:
    """Write a header and rows of values."""
    return csvfile.table(names, rows).rstrip("\n")
