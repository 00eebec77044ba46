"""Documents for programs: one JSON document per command, also on errors, and records as CSV text."""

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kbench.core.version import __version__
from kbench.storage import csvfile
from kbench.storage.json_values import plain

SCHEMA = 1
"""Version of the JSON documents: names and meanings of the keys. New keys may come without a new version."""


COMMON: Mapping[str, Any] = {"reason": "", "hint": None, "exit_code": 0, "findings": (), "speedup": None}
"""Keys that every document has, by what they hold where a command says nothing else."""


def render_document(command: str, *, status: str, results: Iterable[Any] = (), **data: Any) -> str:
    """Write one JSON document with all common keys; NaN and infinities become text, findings have a `message`."""
    head = {"schema": SCHEMA, "command": command, "kbench_version": __version__, "status": status}
    document = {**head, **COMMON, **data, "results": list(results)}
    return json.dumps(plain(document), indent=2, allow_nan=False, ensure_ascii=False)


def render_records(records: Iterable[Any], kind: type) -> str:
    """Write dataclass records of one kind as CSV, with cells as in the results files; None is an empty cell."""
    names = [field.name for field in dataclasses.fields(kind)]
    return csvfile.table(names, ([getattr(record, name) for name in names] for record in records)).rstrip("\n")


def render_lines(lines: Sequence[Mapping[str, Any]]) -> str:
    """Write mappings with the same keys as CSV."""
    return csvfile.table([*lines[0]] if lines else [], (line.values() for line in lines)).rstrip("\n")
